//! Types and expressions of the user: as text, and inside the generated module.

use proc_macro2::{Delimiter, Group, LineColumn, Spacing, TokenStream, TokenTree};
use quote::{ToTokens, quote_spanned};

/// A type or an expression of the user. Its tokens are those for the generated module; `text` is
/// for people.
pub(crate) struct Written {
    pub(crate) text: String,
    inside: TokenStream,
}

impl Written {
    pub(crate) fn new(node: impl ToTokens) -> Self {
        let tokens = node.to_token_stream();
        Written {
            text: text(tokens.clone()),
            inside: inside(tokens),
        }
    }
}

impl ToTokens for Written {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        tokens.extend(self.inside.clone());
    }
}

/// Paths that count from the function's module, counted from a module inside it: `super` becomes
/// `super::super`, `self` becomes `super`.
fn inside(tokens: TokenStream) -> TokenStream {
    let mut out = TokenStream::new();
    // How much of a `::` stands before the token.
    let mut colons = 0;
    for token in tokens {
        let starts_path = colons < 2;
        colons = match &token {
            TokenTree::Punct(punct) if punct.as_char() == ':' => match punct.spacing() {
                Spacing::Joint => 1,
                Spacing::Alone => colons + 1,
            },
            _ => 0,
        };
        match token {
            TokenTree::Ident(ident) if starts_path && ident == "super" => {
                out.extend(quote_spanned!(ident.span()=> super::super));
            }
            TokenTree::Ident(ident) if starts_path && ident == "self" => {
                out.extend(quote_spanned!(ident.span()=> super));
            }
            TokenTree::Group(group) => {
                let mut moved = Group::new(group.delimiter(), inside(group.stream()));
                moved.set_span(group.span());
                out.extend([TokenTree::Group(moved)]);
            }
            other => out.extend([other]),
        }
    }
    out
}

/// The tokens with a space where the source has space. Printing tokens instead would give `a . len
/// ()`.
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
        // Tokens of another macro carry positions that say nothing about their neighbours: two
        // words never touch.
        let touch = self.out.ends_with(word) && token.starts_with(word);
        // For the same reason a dot, which no space surrounds, decides by itself.
        let tight = token == "." || self.out.ends_with('.');
        let apart = self.end.is_some_and(|previous| previous != start) && !tight;
        if !self.out.is_empty() && (touch || apart) {
            self.out.push(' ');
        }
        self.out.push_str(token);
        self.end = Some(end);
    }
}
