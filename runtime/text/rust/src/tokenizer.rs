//! `tokenizer.json` through the `tokenizers` crate.
use tokenizers::Tokenizer;

use crate::Outcome;

pub struct Encoded {
    pub ids: Vec<u32>,
    /// Two for each id: where it begins and ends in the text, in code points.
    pub offsets: Vec<u64>,
}

/// As Transformers calls it: what the file says of truncation and padding is for batches.
pub fn open(json: &[u8]) -> Outcome<Tokenizer> {
    let mut tokenizer = Tokenizer::from_bytes(json).map_err(|error| error.to_string())?;
    tokenizer.with_truncation(None).map_err(|error| error.to_string())?;
    tokenizer.with_padding(None);
    Ok(tokenizer)
}

/// The largest id and 1: ids may have holes.
pub fn num_ids(tokenizer: &Tokenizer, with_added_tokens: bool) -> u64 {
    tokenizer.get_vocab(with_added_tokens).into_values().max().map_or(0, |id| u64::from(id) + 1)
}

pub fn encode(tokenizer: &Tokenizer, text: &str, add_special_tokens: bool) -> Outcome<Encoded> {
    let encoding = tokenizer
        .encode_char_offsets(text, add_special_tokens)
        .map_err(|error| error.to_string())?;
    let offsets = encoding.get_offsets().iter().flat_map(|&(begin, end)| [begin as u64, end as u64]);
    Ok(Encoded { ids: encoding.get_ids().to_vec(), offsets: offsets.collect() })
}
