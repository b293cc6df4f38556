//! Expressions as text, as they stand in the source.

use proc_macro2::{Delimiter, LineColumn, TokenStream, TokenTree};

/// The tokens with a space where the source has space. Printing tokens instead would give `a . len ()`.
pub(crate) fn text(tokens: TokenStream) -> String {
    let mut text = Text {
        out: String::new(),
        end: None,
    };
    text.stream(tokens);
    text.out
}

struct Text {
    out: String,
    end: Option<LineColumn>,
}

impl Text {
    fn stream(&mut self, tokens: TokenStream) {
        for token in tokens {
            match token {
                TokenTree::Group(group) => {
                    let (open, close) = match group.delimiter() {
                        Delimiter::Parenthesis => ("(", ")"),
                        Delimiter::Brace => ("{", "}"),
                        Delimiter::Bracket => ("[", "]"),
                        Delimiter::None => ("", ""),
                    };
                    // From the span of the whole: a group that went through `syn` has no other.
                    let (start, end) = (group.span().start(), group.span().end());
                    let inside = LineColumn {
                        column: start.column + 1,
                        ..start
                    };
                    let before = LineColumn {
                        column: end.column.saturating_sub(1),
                        ..end
                    };
                    self.push(open, start, inside);
                    self.stream(group.stream());
                    self.push(close, before, end);
                }
                other => self.push(&other.to_string(), other.span().start(), other.span().end()),
            }
        }
    }

    fn push(&mut self, token: &str, start: LineColumn, end: LineColumn) {
        if token.is_empty() {
            return;
        }
        let word = |c: char| c.is_alphanumeric() || c == '_';
        // Tokens of another macro carry positions that say nothing about their neighbours: two words never touch.
        let touch = self.out.ends_with(word) && token.starts_with(word);
        if !self.out.is_empty() && (touch || self.end.is_some_and(|previous| previous != start)) {
            self.out.push(' ');
        }
        self.out.push_str(token);
        self.end = Some(end);
    }
}
