//! Hugging Face tokenizers, chat templates and rows of data files behind a C ABI: see lockstep_text.h.
//!
//! Every function returns false and an error's text in place of unwinding: a panic ends at `guard`.
mod generation;
mod python;
mod rows;
mod template;
mod tokenizer;

use std::panic::{catch_unwind, set_hook, AssertUnwindSafe};
use std::ptr;
use std::sync::Once;

use rows::Rows;
use template::ChatTemplate;
use tokenizers::Tokenizer;

/// A boxed slice that the caller gives back with `lockstep_text_free_*`.
#[repr(C)]
pub struct Slice<T> {
    data: *mut T,
    size: usize,
}

impl<T> Slice<T> {
    fn give(values: Vec<T>) -> Self {
        let size = values.len();
        Slice { data: Box::into_raw(values.into_boxed_slice()).cast(), size }
    }

    /// # Safety
    /// `self` is what `give()` returned, and was not freed before.
    unsafe fn free(self) {
        if !self.data.is_null() {
            drop(Box::from_raw(ptr::slice_from_raw_parts_mut(self.data, self.size)));
        }
    }
}

#[repr(C)]
pub struct Encoding {
    ids: Slice<u32>,
    offsets: Slice<u64>,
}

#[repr(C)]
pub struct Rendering {
    text: Slice<u8>,
    spans: Slice<u64>,
}

#[repr(C)]
pub struct Row {
    text: Slice<u8>,
    line: u64,
}

type Outcome<T> = Result<T, String>;

/// What `work` returns, or the text of its panic, of which nobody is told otherwise.
fn catch<T>(work: impl FnOnce() -> T) -> Outcome<T> {
    static SILENT: Once = Once::new();
    SILENT.call_once(|| set_hook(Box::new(|_| {})));
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message").to_owned()
    })
}

/// Runs `work` and writes its value to `out`, or what went wrong to `error`.
///
/// # Safety
/// `out` and `error` may be written.
unsafe fn guard<T>(out: *mut T, error: *mut Slice<u8>, work: impl FnOnce() -> Outcome<T>) -> bool {
    let outcome = catch(work).unwrap_or_else(|text| Err(format!("a defect of the library: {text}")));
    match outcome {
        Ok(value) => out.write(value),
        Err(text) => {
            error.write(Slice::give(text.into_bytes()));
            return false;
        }
    }
    true
}

/// # Safety
/// `data` holds `size` bytes, or `size` is 0.
unsafe fn bytes<'a, T>(data: *const T, size: usize) -> &'a [T] {
    if size == 0 {
        return &[];
    }
    std::slice::from_raw_parts(data, size)
}

unsafe fn text<'a>(data: *const u8, size: usize) -> Outcome<&'a str> {
    std::str::from_utf8(bytes(data, size))
        .map_err(|error| format!("the text is not UTF-8: byte {}", error.valid_up_to()))
}

#[no_mangle]
pub unsafe extern "C" fn lockstep_tokenizer_open(
    json: *const u8,
    size: usize,
    out: *mut *mut Tokenizer,
    error: *mut Slice<u8>,
) -> bool {
    guard(out, error, || Ok(Box::into_raw(Box::new(tokenizer::open(bytes(json, size))?))))
}

#[no_mangle]
pub unsafe extern "C" fn lockstep_tokenizer_close(tokenizer: *mut Tokenizer) {
    drop(Box::from_raw(tokenizer));
}

#[no_mangle]
pub unsafe extern "C" fn lockstep_tokenizer_num_ids(
    tokenizer: *const Tokenizer,
    with_added_tokens: bool,
    out: *mut u64,
    error: *mut Slice<u8>,
) -> bool {
    guard(out, error, || Ok(tokenizer::num_ids(&*tokenizer, with_added_tokens)))
}

#[no_mangle]
pub unsafe extern "C" fn lockstep_tokenizer_id_of(
    tokenizer: *const Tokenizer,
    token: *const u8,
    size: usize,
    out: *mut i64,
    error: *mut Slice<u8>,
) -> bool {
    guard(out, error, || {
        Ok((*tokenizer).token_to_id(text(token, size)?).map_or(-1, i64::from))
    })
}

#[no_mangle]
pub unsafe extern "C" fn lockstep_tokenizer_encode(
    tokenizer: *const Tokenizer,
    input: *const u8,
    size: usize,
    add_special_tokens: bool,
    out: *mut Encoding,
    error: *mut Slice<u8>,
) -> bool {
    guard(out, error, || {
        let encoded = tokenizer::encode(&*tokenizer, text(input, size)?, add_special_tokens)?;
        Ok(Encoding { ids: Slice::give(encoded.ids), offsets: Slice::give(encoded.offsets) })
    })
}

#[no_mangle]
pub unsafe extern "C" fn lockstep_tokenizer_decode(
    tokenizer: *const Tokenizer,
    ids: *const u32,
    num_ids: usize,
    skip_special_tokens: bool,
    out: *mut Slice<u8>,
    error: *mut Slice<u8>,
) -> bool {
    guard(out, error, || {
        let decoded = (*tokenizer).decode(bytes(ids, num_ids), skip_special_tokens);
        Ok(Slice::give(decoded.map_err(|error| error.to_string())?.into_bytes()))
    })
}

#[no_mangle]
pub unsafe extern "C" fn lockstep_template_open(
    source: *const u8,
    size: usize,
    out: *mut *mut ChatTemplate,
    error: *mut Slice<u8>,
) -> bool {
    guard(out, error, || Ok(Box::into_raw(Box::new(ChatTemplate::open(text(source, size)?)?))))
}

#[no_mangle]
pub unsafe extern "C" fn lockstep_template_close(template: *mut ChatTemplate) {
    drop(Box::from_raw(template));
}

#[no_mangle]
pub unsafe extern "C" fn lockstep_template_marks_generation(template: *const ChatTemplate) -> bool {
    (*template).marks_generation()
}

#[no_mangle]
pub unsafe extern "C" fn lockstep_template_render(
    template: *const ChatTemplate,
    variables: *const u8,
    size: usize,
    now_microseconds: i64,
    out: *mut Rendering,
    error: *mut Slice<u8>,
) -> bool {
    guard(out, error, || {
        let rendered = (*template).render(bytes(variables, size), now_microseconds)?;
        Ok(Rendering {
            text: Slice::give(rendered.text.into_bytes()),
            spans: Slice::give(rendered.spans),
        })
    })
}

#[no_mangle]
pub unsafe extern "C" fn lockstep_rows_open(
    data: *const u8,
    size: usize,
    format: u32,
    out: *mut *mut Rows,
    error: *mut Slice<u8>,
) -> bool {
    guard(out, error, || Ok(Box::into_raw(Box::new(rows::open(bytes(data, size), format)?))))
}

#[no_mangle]
pub unsafe extern "C" fn lockstep_rows_close(rows: *mut Rows) {
    drop(Box::from_raw(rows));
}

#[no_mangle]
pub unsafe extern "C" fn lockstep_rows_next(
    rows: *mut Rows,
    out: *mut Row,
    error: *mut Slice<u8>,
) -> bool {
    guard(out, error, || {
        let next = (*rows).next().transpose()?;
        let (text, line) = next.map_or((String::new(), 0), |row| (row.text, row.line));
        Ok(Row { text: Slice::give(text.into_bytes()), line })
    })
}

#[no_mangle]
pub unsafe extern "C" fn lockstep_text_free_bytes(slice: Slice<u8>) {
    slice.free();
}

#[no_mangle]
pub unsafe extern "C" fn lockstep_text_free_encoding(encoding: Encoding) {
    encoding.ids.free();
    encoding.offsets.free();
}

#[no_mangle]
pub unsafe extern "C" fn lockstep_text_free_rendering(rendering: Rendering) {
    rendering.text.free();
    rendering.spans.free();
}
