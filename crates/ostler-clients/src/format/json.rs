//! Reads JSON, with comments, and JSON5.

use jsonc_parser::ast::{ObjectPropName, Value as Ast};
use jsonc_parser::common::{Range as AstRange, Ranged as _};
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};

use super::{Format, SyntaxError, wrong};
use crate::tree::{Kind, Member, Node};
use crate::value::Value;

pub(super) fn parse(text: &str, format: Format) -> Result<Node, SyntaxError> {
    let parsed = parse_to_ast(text, &CollectOptions::default(), &options(format));
    let parsed = parsed.map_err(|error| {
        wrong(text, error.range().start, error.kind().to_string().to_lowercase())
    })?;
    let nothing = || Node { span: text.len()..text.len(), kind: Kind::Scalar(Value::Null) };
    Ok(parsed.value.map_or_else(nothing, |value| node(&value)))
}

fn options(format: Format) -> ParseOptions {
    let is_json5 = format == Format::Json5;
    ParseOptions {
        allow_comments: true,
        allow_trailing_commas: true,
        allow_missing_commas: false,
        allow_loose_object_property_names: is_json5,
        allow_single_quoted_strings: is_json5,
        allow_hexadecimal_numbers: is_json5,
        allow_unary_plus_numbers: is_json5,
        allow_bare_decimal_point_numbers: is_json5,
        allow_non_finite_numbers: is_json5,
        allow_extended_string_escapes: is_json5,
    }
}

fn node(value: &Ast<'_>) -> Node {
    let kind = match value {
        Ast::StringLit(text) => Kind::Scalar(Value::String(text.value.to_string())),
        Ast::NumberLit(number) => Kind::Scalar(Value::Number(number.value.to_owned())),
        Ast::BooleanLit(it) => Kind::Scalar(Value::Bool(it.value)),
        Ast::NullKeyword(_) => Kind::Scalar(Value::Null),
        Ast::Array(array) => Kind::Array(array.elements.iter().map(node).collect()),
        Ast::Object(object) => Kind::Object(
            object
                .properties
                .iter()
                .map(|property| Member {
                    key: match &property.name {
                        ObjectPropName::String(name) => name.value.to_string(),
                        ObjectPropName::Word(name) => name.value.to_owned(),
                    },
                    key_span: span(property.name.range()),
                    node: node(&property.value),
                })
                .collect(),
        ),
    };
    Node { span: span(value.range()), kind }
}

fn span(range: AstRange) -> std::ops::Range<usize> {
    range.start..range.end
}
