//! What templates written for Python's Jinja count on: json.dumps, repr of floats, strftime.
use minijinja::value::{Kwargs, Value, ValueKind};
use minijinja::{Error, ErrorKind};

fn wrong(what: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidOperation, what.into())
}

/// str.isspace()
fn is_space(character: char) -> bool {
    character.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&character)
}

/// str.strip(), lstrip(), rstrip()
pub fn strip<'a>(text: &'a str, characters: Option<&str>, left: bool, right: bool) -> &'a str {
    let goes = |character: char| match characters {
        Some(those) => those.contains(character),
        None => is_space(character),
    };
    let text = if left { text.trim_start_matches(goes) } else { text };
    if right { text.trim_end_matches(goes) } else { text }
}

/// str.splitlines()
fn split_lines(text: &str) -> Vec<&str> {
    let ends = ['\n', '\r', '\u{b}', '\u{c}', '\u{1c}', '\u{1d}', '\u{1e}', '\u{85}', '\u{2028}', '\u{2029}'];
    let (mut lines, mut rest) = (Vec::new(), text);
    while let Some(at) = rest.find(ends) {
        lines.push(&rest[..at]);
        let end = if rest[at..].starts_with("\r\n") { 2 } else { rest[at..].chars().next().map_or(0, char::len_utf8) };
        rest = &rest[at + end..];
    }
    if !rest.is_empty() {
        lines.push(rest);
    }
    lines
}

/// Methods of str in which Python's white space and ends of lines are not Rust's.
pub fn text_method(text: &str, method: &str, arguments: &[Value]) -> Option<Value> {
    let characters = match arguments {
        [] => None,
        [only] => Some(only.as_str()?),
        _ => return None,
    };
    match method {
        "strip" => Some(Value::from(strip(text, characters, true, true))),
        "lstrip" => Some(Value::from(strip(text, characters, true, false))),
        "rstrip" => Some(Value::from(strip(text, characters, false, true))),
        "isspace" => Some(Value::from(!text.is_empty() && text.chars().all(is_space))),
        "split" if characters.is_none() => {
            Some(text.split(is_space).filter(|word| !word.is_empty()).collect())
        }
        "splitlines" if arguments.is_empty() => Some(split_lines(text).into_iter().collect()),
        _ => None,
    }
}

/// repr(float): the shortest digits that read back, with an exponent where Python has one.
pub fn float_text(value: f64) -> String {
    if !value.is_finite() {
        return if value.is_nan() { "nan" } else if value > 0.0 { "inf" } else { "-inf" }.to_string();
    }
    let scientific = format!("{value:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if value != 0.0 && !(-4..16).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{digits}e{sign}{:02}", exponent.abs());
    }
    let plain = format!("{value}");
    if plain.contains('.') { plain } else { plain + ".0" }
}

struct Dumper {
    out: String,
    ensure_ascii: bool,
    sort_keys: bool,
    indent: Option<String>,
    item_separator: String,
    key_separator: String,
}

/// Transformers' filter: json.dumps with its arguments, nothing escaped for HTML.
pub fn tojson(value: Value, ensure_ascii: Option<bool>, kwargs: Kwargs) -> Result<Value, Error> {
    let ensure_ascii = ensure_ascii.or(kwargs.get("ensure_ascii")?).unwrap_or(false);
    let indent = match kwargs.get::<Option<Value>>("indent")? {
        Some(indent) if indent.is_none() => None,
        Some(indent) => Some(match indent.as_str() {
            Some(text) => text.to_string(),
            None => " ".repeat(usize::try_from(indent)?),
        }),
        None => None,
    };
    let separators = kwargs.get::<Option<Vec<String>>>("separators")?;
    let sort_keys = kwargs.get::<Option<bool>>("sort_keys")?.unwrap_or(false);
    kwargs.assert_all_used()?;
    let comma = if indent.is_some() { "," } else { ", " };
    let (item_separator, key_separator) = match separators.as_deref() {
        None => (comma.to_string(), ": ".to_string()),
        Some([item, key]) => (item.clone(), key.clone()),
        Some(_) => return Err(wrong("tojson: separators must be two strings")),
    };
    let mut dumper =
        Dumper { out: String::new(), ensure_ascii, sort_keys, indent, item_separator, key_separator };
    dumper.dump(&value, 0)?;
    Ok(Value::from(dumper.out))
}

impl Dumper {
    fn dump(&mut self, value: &Value, depth: usize) -> Result<(), Error> {
        match value.kind() {
            ValueKind::None => self.out.push_str("null"),
            ValueKind::Bool => self.out.push_str(if value.is_true() { "true" } else { "false" }),
            ValueKind::Number => self.out.push_str(&number_text(value)),
            ValueKind::String => self.string(value.as_str().unwrap_or_default()),
            ValueKind::Map => return self.map(value, depth),
            ValueKind::Seq | ValueKind::Iterable => return self.list(value, depth),
            kind => return Err(wrong(format!("tojson: {kind} is not JSON"))),
        }
        Ok(())
    }

    fn list(&mut self, value: &Value, depth: usize) -> Result<(), Error> {
        let items: Vec<Value> = value.try_iter()?.collect();
        if items.is_empty() {
            self.out.push_str("[]");
            return Ok(());
        }
        self.out.push('[');
        for (index, item) in items.iter().enumerate() {
            self.begin_item(index, depth + 1);
            self.dump(item, depth + 1)?;
        }
        self.end_items(depth);
        self.out.push(']');
        Ok(())
    }

    fn map(&mut self, value: &Value, depth: usize) -> Result<(), Error> {
        let mut items = Vec::new();
        for key in value.try_iter()? {
            let item = value.get_item(&key)?;
            items.push((key_text(&key)?, item));
        }
        if items.is_empty() {
            self.out.push_str("{}");
            return Ok(());
        }
        if self.sort_keys {
            items.sort_by(|a, b| a.0.cmp(&b.0));
        }
        self.out.push('{');
        for (index, (key, item)) in items.iter().enumerate() {
            self.begin_item(index, depth + 1);
            self.string(key);
            self.out.push_str(&self.key_separator);
            self.dump(item, depth + 1)?;
        }
        self.end_items(depth);
        self.out.push('}');
        Ok(())
    }

    fn begin_item(&mut self, index: usize, depth: usize) {
        if index > 0 {
            self.out.push_str(&self.item_separator);
        }
        if let Some(indent) = &self.indent {
            self.out.push('\n');
            self.out.push_str(&indent.repeat(depth));
        }
    }

    fn end_items(&mut self, depth: usize) {
        if let Some(indent) = &self.indent {
            self.out.push('\n');
            self.out.push_str(&indent.repeat(depth));
        }
    }

    fn string(&mut self, text: &str) {
        self.out.push('"');
        for character in text.chars() {
            match character {
                '"' => self.out.push_str("\\\""),
                '\\' => self.out.push_str("\\\\"),
                '\n' => self.out.push_str("\\n"),
                '\r' => self.out.push_str("\\r"),
                '\t' => self.out.push_str("\\t"),
                '\u{8}' => self.out.push_str("\\b"),
                '\u{c}' => self.out.push_str("\\f"),
                c if c < ' ' || (self.ensure_ascii && c > '~') => {
                    for unit in c.encode_utf16(&mut [0; 2]) {
                        self.out.push_str(&format!("\\u{unit:04x}"));
                    }
                }
                c => self.out.push(c),
            }
        }
        self.out.push('"');
    }
}

fn number_text(value: &Value) -> String {
    if value.is_integer() {
        return value.to_string();
    }
    match f64::try_from(value.clone()) {
        Ok(float) if float.is_nan() => "NaN".to_string(),
        Ok(float) if float.is_infinite() => {
            if float > 0.0 { "Infinity" } else { "-Infinity" }.to_string()
        }
        Ok(float) => float_text(float),
        Err(_) => value.to_string(),
    }
}

fn key_text(key: &Value) -> Result<String, Error> {
    match key.kind() {
        ValueKind::String => Ok(key.as_str().unwrap_or_default().to_string()),
        ValueKind::None => Ok("null".to_string()),
        ValueKind::Bool => Ok(if key.is_true() { "true" } else { "false" }.to_string()),
        ValueKind::Number => Ok(number_text(key)),
        kind => Err(wrong(format!("tojson: {kind} cannot be a key"))),
    }
}

/// datetime.now().strftime(format): local time without a zone.
pub fn strftime(format: &str, now_microseconds: i64) -> Result<String, Error> {
    let mut pattern = String::new();
    let mut characters = format.chars();
    while let Some(character) = characters.next() {
        if character != '%' {
            pattern.push(character);
            continue;
        }
        match characters.next() {
            Some('f') => pattern.push_str(&format!("{:06}", now_microseconds.rem_euclid(1_000_000))),
            Some('Z' | 'z') => {}
            Some(other) => pattern.extend(['%', other]),
            None => pattern.push('%'),
        }
    }
    if pattern.is_empty() {
        return Ok(pattern);
    }
    pattern.push('.'); // an empty result could not be told from one that is too long
    let pattern = std::ffi::CString::new(pattern).map_err(|_| wrong("strftime_now: a zero byte"))?;
    let seconds: libc::time_t = now_microseconds.div_euclid(1_000_000);
    let mut buffer = vec![0u8; 4096];
    // SAFETY: the pointers are to values that live as long as the calls, and strftime writes at most what it is told.
    let written = unsafe {
        let mut time: libc::tm = std::mem::zeroed();
        if libc::localtime_r(&seconds, &mut time).is_null() {
            return Err(wrong("strftime_now: no such time"));
        }
        libc::strftime(buffer.as_mut_ptr().cast(), buffer.len(), pattern.as_ptr(), &time)
    };
    if written == 0 {
        return Err(wrong("strftime_now: the text is longer than 4 KiB"));
    }
    buffer.truncate(written - 1);
    String::from_utf8(buffer).map_err(|_| wrong("strftime_now: not UTF-8"))
}
