//! Chat templates as Transformers renders them.
use std::cell::Cell;

use indexmap::IndexMap;
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Value, ValueKind};
use minijinja::{Environment, Error, ErrorKind};
use minijinja_contrib::pycompat;
use serde_json::{Map, Value as Json};

use crate::{generation, python, Outcome};

const NAME: &str = "chat template";

// What the functions of a template need beside their arguments, while one is rendered.
thread_local! {
    static MARKS: Cell<(char, char)> = const { Cell::new(('\u{fdd0}', '\u{fdd1}')) };
    static NOW_MICROSECONDS: Cell<i64> = const { Cell::new(0) };
}

pub struct ChatTemplate {
    environment: Environment<'static>,
    source: String,
    marks_generation: bool,
}

pub struct Rendered {
    pub text: String,
    /// Two for each block of {% generation %}: where it begins and ends in the text, in code points.
    pub spans: Vec<u64>,
}

fn describe(error: Error) -> String {
    let what = error.detail().map_or_else(|| error.kind().to_string(), str::to_string);
    let line = error.line().map_or_else(String::new, |line| format!("line {line}: "));
    format!("{line}{what}")
}

impl ChatTemplate {
    pub fn open(source: &str) -> Outcome<ChatTemplate> {
        let source = source.replace("\r\n", "\n").replace('\r', "\n");
        let (rewritten, marks_generation) = generation::rewrite(&source);
        let mut environment = environment();
        environment.add_template_owned(NAME, rewritten).map_err(describe)?;
        Ok(ChatTemplate { environment, source, marks_generation })
    }

    pub fn marks_generation(&self) -> bool {
        self.marks_generation
    }

    pub fn render(&self, variables: &[u8], now_microseconds: i64) -> Outcome<Rendered> {
        let input = std::str::from_utf8(variables)
            .map_err(|error| format!("the conversation is not UTF-8: byte {}", error.valid_up_to()))?;
        let mut variables: Map<String, Json> = serde_json::from_str(input)
            .map_err(|error| format!("the conversation is not JSON: {error}"))?;
        normalize_messages(&mut variables);
        let plain = Json::Object(variables.clone()).to_string(); // without escapes
        let marks = generation::choose_marks(&[&self.source, &plain])?;
        MARKS.set(marks);
        NOW_MICROSECONDS.set(now_microseconds);
        let template = self.environment.get_template(NAME).map_err(describe)?;
        let marked = template.render(to_value(Json::Object(variables))).map_err(describe)?;
        let (text, spans) = generation::take_marks(&marked, marks)?;
        Ok(Rendered { text, spans })
    }
}

/// What Transformers does to messages first: keys that are null go, and reasoning has all of its names.
fn normalize_messages(variables: &mut Map<String, Json>) {
    let Some(Json::Array(messages)) = variables.get_mut("messages") else { return };
    for message in messages.iter_mut().filter_map(Json::as_object_mut) {
        message.retain(|_, value| !value.is_null());
        let names = ["reasoning_content", "thinking", "reasoning"];
        let Some(reasoning) = names.iter().find_map(|name| message.get(*name)).cloned() else { continue };
        let mut named = Map::new();
        named.insert("thinking".to_string(), reasoning.clone());
        named.append(message);
        named.insert("reasoning_content".to_string(), reasoning);
        *message = named;
    }
}

fn to_value(json: Json) -> Value {
    match json {
        Json::Null => Value::from(()),
        Json::Bool(value) => Value::from(value),
        Json::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(value), _) => Value::from(value),
            (None, Some(value)) => Value::from(value),
            (None, None) => Value::from(number.as_f64().unwrap_or(f64::NAN)),
        },
        Json::String(value) => Value::from(value),
        Json::Array(items) => Value::from(items.into_iter().map(to_value).collect::<Vec<_>>()),
        Json::Object(items) => {
            let items = items.into_iter().map(|(key, value)| (Value::from(key), to_value(value)));
            Value::from_object(items.collect::<IndexMap<Value, Value>>())
        }
    }
}

fn environment() -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_syntax(
        SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build().expect("Jinja's own syntax"),
    );
    environment.set_unknown_method_callback(|state, value, method, arguments| {
        match value.as_str().and_then(|text| python::text_method(text, method, arguments)) {
            Some(result) => Ok(result),
            None => pycompat::unknown_method_callback(state, value, method, arguments),
        }
    });
    environment.set_formatter(|out, state, value| {
        if value.kind() == ValueKind::Number && !value.is_integer() {
            if let Ok(float) = f64::try_from(value.clone()) {
                return Ok(out.write_str(&python::float_text(float))?);
            }
        }
        minijinja::escape_formatter(out, state, value)
    });
    environment.add_filter("tojson", python::tojson);
    environment.add_filter("trim", |text: String, characters: Option<String>| {
        python::strip(&text, characters.as_deref(), true, true).to_string()
    });
    environment.add_filter(generation::FILTER, |text: String| {
        let (begin, end) = MARKS.get();
        format!("{begin}{text}{end}")
    });
    environment.add_function("raise_exception", |message: String| -> Result<Value, Error> {
        Err(Error::new(ErrorKind::InvalidOperation, message))
    });
    environment.add_function("strftime_now", |format: String| {
        python::strftime(&format, NOW_MICROSECONDS.get())
    });
    // Of Python's values, texts and mappings have a length and items too.
    environment.add_test("sequence", |value: &Value| {
        let kinds = [ValueKind::Seq, ValueKind::Map, ValueKind::String, ValueKind::Undefined];
        kinds.contains(&value.kind())
    });
    environment.add_test("iterable", |value: &Value| {
        value.kind() == ValueKind::String || value.try_iter().is_ok()
    });
    environment
}
