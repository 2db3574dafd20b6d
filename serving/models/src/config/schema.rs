//! Configurations as text, as messages and as JSON.
//!
//! JSON is the form that everything else works with: Python models get it, and clients that ask for a model's
//! configuration. The message's schema decides what a configuration may contain.

use super::ConfigError;
use miette::Diagnostic;
use prost_reflect::{DescriptorPool, DynamicMessage, MessageDescriptor, SerializeOptions};
use serde_json::Value;
use std::sync::LazyLock;

static SCHEMA: LazyLock<MessageDescriptor> = LazyLock::new(|| {
    let descriptors = include_bytes!(concat!(env!("OUT_DIR"), "/model_config.bin"));
    let pool =
        DescriptorPool::decode(descriptors.as_slice()).expect("the build script has made it");
    pool.get_message_by_name("inference.ModelConfig").expect("the schema has it")
});

/// The text of a `config.pbtxt` as JSON, with the defaults of all scalar fields.
pub(super) fn of_text(text: &str) -> Result<Value, ConfigError> {
    let text = with_colons(text);
    let message = DynamicMessage::parse_text_format(SCHEMA.clone(), &text).map_err(|error| {
        // The error says what is wrong, its label where.
        let label = error.labels().and_then(|mut labels| labels.next());
        let place = label.map_or(0, |label| label.offset().min(text.len()));
        let line = 1 + text.bytes().take(place).filter(|byte| *byte == b'\n').count();
        let words = text.lines().nth(line - 1).unwrap_or_default().trim();
        ConfigError::Text(format!("line {line}, `{words}`: {error}"))
    })?;
    to_json(&message)
}

/// The text with a colon before each list of messages. The text format of protocol buffers lets it be left out, most
/// configurations do so, and the parser wants it.
fn with_colons(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 16);
    let mut quote = None;
    let (mut is_comment, mut is_escaped) = (false, false);
    // Whether the last token was a word, which a list may follow.
    let mut follows_word = false;
    for character in text.chars() {
        match (quote, character) {
            _ if is_escaped => is_escaped = false,
            (Some(_), '\\') => is_escaped = true,
            (Some(open), _) => quote = quote.filter(|_| character != open),
            (None, '\n') => is_comment = false,
            _ if is_comment => {}
            (None, '#') => is_comment = true,
            (None, '"' | '\'') => {
                quote = Some(character);
                follows_word = false;
            }
            (None, '[') if follows_word => {
                out.push(':');
                follows_word = false;
            }
            (None, _) if character.is_whitespace() => {}
            (None, _) => follows_word = character.is_alphanumeric() || character == '_',
        }
        out.push(character);
    }
    out
}

/// JSON with the same names, checked against the schema and completed as [`of_text`] completes it.
pub(super) fn of_json(json: &Value) -> Result<Value, ConfigError> {
    let message = DynamicMessage::deserialize(SCHEMA.clone(), json)
        .map_err(|error| ConfigError::Text(error.to_string()))?;
    to_json(&message)
}

fn to_json(message: &DynamicMessage) -> Result<Value, ConfigError> {
    let options = SerializeOptions::new()
        .use_proto_field_name(true)
        .stringify_64_bit_integers(false)
        .skip_default_fields(false);
    message
        .serialize_with_options(serde_json::value::Serializer, &options)
        .map_err(|error| ConfigError::Text(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::with_colons;

    #[test]
    fn only_lists_that_follow_a_word_get_a_colon() {
        for (text, expected) in [
            ("input [ {} ]", "input :[ {} ]"),
            ("input: [1]", "input: [1]"),
            ("a { b\n[] }", "a { b\n:[] }"),
            ("a: \"b [\\\" c [\" d [", "a: \"b [\\\" c [\" d :["),
            ("# a [\nb [ # c [", "# a [\nb :[ # c ["),
            ("[[", "[["),
        ] {
            assert_eq!(with_colons(text), expected);
        }
    }
}
