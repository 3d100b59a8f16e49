//! `{% generation %}` blocks: what they hold was said by the assistant.
//!
//! The template language has no tags of one's own, so a block is rewritten to a filter that sets a mark before and behind
//! the text. Marks are two of Unicode's noncharacters that neither template nor input holds; they are taken out again.
use crate::Outcome;

pub const FILTER: &str = "lockstep_generation";

/// `source` with its blocks rewritten, and whether there were any.
pub fn rewrite(source: &str) -> (String, bool) {
    let mut rewritten = String::with_capacity(source.len());
    let mut rest = source;
    let mut found = false;
    let mut raw = false;
    while let Some(at) = next_tag(rest, raw) {
        rewritten.push_str(&rest[..at]);
        rest = &rest[at..];
        let end = tag_end(rest);
        let tag = &rest[..end];
        rest = &rest[end..];
        match name_of(tag) {
            Some((name, _, _)) if name == "raw" => raw = true,
            Some((name, _, _)) if name == "endraw" => raw = false,
            Some((name, left, right)) if !raw && name == "generation" => {
                rewritten.push_str(&format!("{{%{left} filter {FILTER} %}}{{% with {right}%}}"));
                found = true;
                continue;
            }
            Some((name, left, right)) if !raw && name == "endgeneration" => {
                rewritten.push_str(&format!("{{%{left} endwith %}}{{% endfilter {right}%}}"));
                continue;
            }
            _ => {}
        }
        rewritten.push_str(tag);
    }
    rewritten.push_str(rest);
    (rewritten, found)
}

/// Where the next tag begins. In raw text only a statement is one, for it may be the end.
fn next_tag(text: &str, raw: bool) -> Option<usize> {
    if raw {
        return text.find("{%");
    }
    let begins = ["{%", "{{", "{#"];
    begins.iter().filter_map(|begin| text.find(begin)).min()
}

/// Behind the tag that `text` begins with: strings in it may hold what looks like its end.
fn tag_end(text: &str) -> usize {
    if text.starts_with("{#") {
        return text.find("#}").map_or(text.len(), |at| at + 2);
    }
    let close = if text.starts_with("{{") { "}}" } else { "%}" };
    let mut quote = None;
    let mut characters = text.char_indices().skip(2);
    while let Some((at, character)) = characters.next() {
        match quote {
            Some(open) if character == open => quote = None,
            Some(_) if character == '\\' => drop(characters.next()),
            Some(_) => {}
            None if character == '"' || character == '\'' => quote = Some(character),
            None if text[at..].starts_with(close) => return at + 2,
            None => {}
        }
    }
    text.len()
}

/// The only word of a statement, and its signs of white space.
fn name_of(tag: &str) -> Option<(&str, &str, &str)> {
    let inner = tag.strip_prefix("{%")?.strip_suffix("%}")?;
    let signs = ['-', '+'];
    let left = if inner.starts_with(signs) { &inner[..1] } else { "" };
    let inner = &inner[left.len()..];
    let right = if inner.ends_with(signs) { &inner[inner.len() - 1..] } else { "" };
    let name = inner[..inner.len() - right.len()].trim();
    Some((name, left, right))
}

/// Two characters that none of `texts` holds.
pub fn choose_marks(texts: &[&str]) -> Outcome<(char, char)> {
    let free: Vec<char> = ('\u{fdd0}'..='\u{fdef}')
        .filter(|&mark| !texts.iter().any(|text| text.contains(mark)))
        .take(2)
        .collect();
    match free[..] {
        [begin, end] => Ok((begin, end)),
        _ => Err("the conversation holds the noncharacters U+FDD0 to U+FDEF".to_string()),
    }
}

/// Takes the marks out of `marked`: the text, and two numbers per block: where it begins and ends, in code points.
pub fn take_marks(marked: &str, marks: (char, char)) -> Outcome<(String, Vec<u64>)> {
    let mut text = String::with_capacity(marked.len());
    let (mut spans, mut open, mut length) = (Vec::new(), Vec::new(), 0u64);
    for character in marked.chars() {
        if character == marks.0 {
            open.push(spans.len());
            spans.extend([length, length]);
        } else if character == marks.1 {
            let span: usize = open.pop().ok_or("a block of {% generation %} was cut by the template")?;
            spans[span + 1] = length;
        } else {
            text.push(character);
            length += 1;
        }
    }
    if !open.is_empty() {
        return Err("a block of {% generation %} was cut by the template".to_string());
    }
    Ok((text, spans))
}
