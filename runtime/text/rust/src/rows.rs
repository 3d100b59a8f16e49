//! Rows of data files that are not JSON lines, each as the text of a JSON object.
use std::collections::HashSet;

use bytes::Bytes;
use parquet::file::serialized_reader::SerializedFileReader;
use parquet::record::reader::RowIter;
use parquet::record::Field;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

/// Where it stands in its file: its first line, or of Parquet its number; from 1.
pub struct Row {
    pub text: String,
    pub line: u64,
}

pub type Rows = Box<dyn Iterator<Item = Result<Row, String>>>;

const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// The rows of a file with the contents `data`. `format`: see LockstepRowFormat.
pub fn open(data: &'static [u8], format: u32) -> Result<Rows, String> {
    match format {
        0 => json_list(data),
        1 => delimited(data, b','),
        2 => delimited(data, b'\t'),
        3 => parquet(data),
        other => Err(format!("a defect: no format has the number {other}")),
    }
}

fn json_list(data: &'static [u8]) -> Result<Rows, String> {
    let rows: Vec<&'static RawValue> = serde_json::from_slice(data)
        .map_err(|error| format!("is not a JSON list of rows: {error}"))?;
    let mut lines = Lines { data, counted: 0, line: 1 };
    Ok(Box::new(rows.into_iter().map(move |row| {
        let begin = row.get().as_ptr() as usize - data.as_ptr() as usize;
        Ok(Row { text: row.get().to_owned(), line: lines.at(begin) })
    })))
}

/// Counts lines as places are asked for, in their order.
struct Lines {
    data: &'static [u8],
    counted: usize,
    line: u64,
}

impl Lines {
    fn at(&mut self, place: usize) -> u64 {
        let passed = &self.data[self.counted..place];
        self.line += passed.iter().filter(|&&byte| byte == b'\n').count() as u64;
        self.counted = place;
        self.line
    }
}

/// Every value is a string: a file of this kind says nothing of types.
fn delimited(data: &'static [u8], delimiter: u8) -> Result<Rows, String> {
    let data = data.strip_prefix(BYTE_ORDER_MARK).unwrap_or(data);
    let mut reader = csv::ReaderBuilder::new().delimiter(delimiter).from_reader(data);
    let names: Vec<String> =
        reader.headers().map_err(|error| error.to_string())?.iter().map(str::to_owned).collect();
    let mut lines = Lines { data, counted: 0, line: 1 };
    let mut known = HashSet::new();
    if let Some(twice) = names.iter().find(|name| !known.insert(name.as_str())) {
        return Err(format!("has two columns {twice:?}"));
    }
    Ok(Box::new(reader.into_records().map(move |record| {
        let record = record.map_err(|error| error.to_string())?;
        let values = record.iter().map(|value| Value::String(value.to_owned()));
        let row: Map<String, Value> = names.iter().cloned().zip(values).collect();
        // The crate's own count does not pass the end of the line before, nor blank lines.
        let mut begin = record.position().map_or(0, |position| position.byte() as usize);
        while matches!(data.get(begin), Some(b'\r' | b'\n')) {
            begin += 1;
        }
        Ok(Row { text: Value::Object(row).to_string(), line: lines.at(begin) })
    })))
}

fn parquet(data: &'static [u8]) -> Result<Rows, String> {
    // The crate returns errors of files that are none, and panics over many that are damaged.
    let damaged = |text| format!("is not a sound Parquet file: {text}");
    let reader = crate::catch(|| SerializedFileReader::new(Bytes::from_static(data)))
        .and_then(|opened| opened.map_err(|error| error.to_string()))
        .map_err(damaged)?;
    let mut rows = RowIter::from_file_into(Box::new(reader));
    let next = move || crate::catch(|| rows.next()).transpose();
    Ok(Box::new(std::iter::from_fn(next).zip(1..).map(move |(row, line)| {
        let row = row
            .and_then(|row| row.map_err(|error| error.to_string()))
            .map_err(|text| damaged(format!("row {line}: {text}")))?;
        let fields = row.get_column_iter().map(|(name, field)| (name.clone(), to_json(field)));
        Ok(Row { text: Value::Object(fields.collect()).to_string(), line })
    })))
}

/// Numbers stay numbers, but those that JSON has not are null; times and decimals become their
/// text. Bytes are a text if they are UTF-8, as of writers that do not mark texts, else null.
fn to_json(field: &Field) -> Value {
    match field {
        Field::Null => Value::Null,
        Field::Bool(value) => (*value).into(),
        Field::Byte(value) => (*value).into(),
        Field::Short(value) => (*value).into(),
        Field::Int(value) => (*value).into(),
        Field::Long(value) => (*value).into(),
        Field::UByte(value) => (*value).into(),
        Field::UShort(value) => (*value).into(),
        Field::UInt(value) => (*value).into(),
        Field::ULong(value) => (*value).into(),
        Field::Float16(value) => value.to_f64().into(),
        Field::Float(value) => (*value).into(),
        Field::Double(value) => (*value).into(),
        Field::Str(text) => text.as_str().into(),
        Field::Bytes(bytes) => std::str::from_utf8(bytes.data()).map_or(Value::Null, Value::from),
        Field::Group(row) => {
            row.get_column_iter().map(|(name, field)| (name.clone(), to_json(field))).collect()
        }
        Field::ListInternal(list) => list.elements().iter().map(to_json).collect(),
        Field::MapInternal(map) => {
            map.entries().iter().map(|(key, value)| (text_of(key), to_json(value))).collect()
        }
        other => other.to_string().into(),
    }
}

fn text_of(key: &Field) -> String {
    match to_json(key) {
        Value::String(text) => text,
        other => other.to_string(),
    }
}
