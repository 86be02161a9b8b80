//! The query form of label selectors, with upstream's grammar and texts (`labels.Parse`).

use super::{Requirement, SelectorError, Test};
use crate::names;

/// A token with its text; the end of the selector is an empty text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token<'t> {
    Word(&'t str),
    Symbol(&'t str),
    End,
}

impl<'t> Token<'t> {
    fn text(self) -> &'t str {
        match self {
            Self::Word(text) | Self::Symbol(text) => text,
            Self::End => "",
        }
    }

    fn is(self, symbol: &str) -> bool {
        self == Token::Symbol(symbol)
    }

    fn ends_requirement(self) -> bool {
        self == Token::End || self.is(",")
    }
}

/// Binary operators as error texts list them.
const BINARY: &str = "in, notin, =, ==, !=, gt, lt";

struct Parser<'t> {
    tokens: Vec<Token<'t>>,
    at: usize,
}

/// All requirements of a selector.
pub(super) fn requirements(text: &str) -> Result<Vec<Requirement>, SelectorError> {
    let mut parser = Parser { tokens: tokens(text), at: 0 };
    let mut found = Vec::new();
    loop {
        match parser.peek() {
            Token::Word(_) | Token::Symbol("!") => found.push(parser.requirement()?),
            Token::End => return Ok(found),
            other => return Err(unexpected(other, "!, identifier, or 'end of string'")),
        }
        match parser.next() {
            Token::End => return Ok(found),
            Token::Symbol(",") => match parser.peek() {
                Token::Word(_) | Token::Symbol("!") => {}
                other => return Err(unexpected(other, "identifier after ','")),
            },
            other => return Err(unexpected(other, "',' or 'end of string'")),
        }
    }
}

fn unexpected(found: Token<'_>, expected: &str) -> SelectorError {
    SelectorError::Grammar(format!("found '{}', expected: {expected}", found.text()))
}

fn tokens(text: &str) -> Vec<Token<'_>> {
    let special = |c: char| "=!(),><".contains(c);
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let length = if special(first) {
            if rest.starts_with("==") || rest.starts_with("!=") { 2 } else { 1 }
        } else {
            rest.find(|c: char| special(c) || c.is_ascii_whitespace()).unwrap_or(rest.len())
        };
        let (token, tail) = rest.split_at(length);
        tokens.push(if special(first) { Token::Symbol(token) } else { Token::Word(token) });
        rest = tail.trim_start();
    }
    tokens
}

impl<'t> Parser<'t> {
    fn peek(&self) -> Token<'t> {
        self.tokens.get(self.at).copied().unwrap_or(Token::End)
    }

    fn next(&mut self) -> Token<'t> {
        let token = self.peek();
        self.at += 1;
        token
    }

    fn requirement(&mut self) -> Result<Requirement, SelectorError> {
        self.test().map_err(|error| match error {
            SelectorError::Grammar(text) => SelectorError::Label(text),
            other => other,
        })
    }

    fn test(&mut self) -> Result<Requirement, SelectorError> {
        let absent = self.peek().is("!");
        if absent {
            self.at += 1;
        }
        let key = match self.next() {
            Token::Word(key) => key,
            other => return Err(unexpected(other, "identifier")),
        };
        let errors = names::qualified_name(key);
        if !errors.is_empty() {
            let text = format!("<nil>: Invalid value: {key:?}: {}", errors.join("; "));
            return Err(SelectorError::Label(text));
        }
        let make = |test| Ok(Requirement { key: key.to_owned(), test });
        if absent {
            return make(Test::DoesNotExist);
        }
        if self.peek().ends_requirement() {
            return make(Test::Exists);
        }
        let operator = self.next();
        match operator {
            Token::Word("in") => make(Test::In(self.values(key)?)),
            Token::Word("notin") => make(Test::NotIn(self.values(key)?)),
            Token::Symbol("=" | "==") => make(Test::In(vec![self.value(key)?])),
            Token::Symbol("!=") => make(Test::NotIn(vec![self.value(key)?])),
            Token::Symbol(">") => make(Test::Gt(self.bound(key)?)),
            Token::Symbol("<") => make(Test::Lt(self.bound(key)?)),
            other => Err(unexpected(other, BINARY)),
        }
    }

    /// One value, which may be empty.
    fn value(&mut self, key: &str) -> Result<String, SelectorError> {
        if self.peek().ends_requirement() {
            return Ok(String::new());
        }
        match self.next() {
            Token::Word(value) => checked(key, 0, value),
            other => Err(unexpected(other, "identifier")),
        }
    }

    fn bound(&mut self, key: &str) -> Result<i64, SelectorError> {
        let value = self.value(key)?;
        value.parse().map_err(|_| {
            let why = "for 'Gt', 'Lt' operators, the value must be an integer";
            SelectorError::Label(format!("values[0]: Invalid value: {value:?}: {why}"))
        })
    }

    /// `(a, b)`; upstream sorts the values and drops what is there twice.
    fn values(&mut self, key: &str) -> Result<Vec<String>, SelectorError> {
        let open = self.next();
        if !open.is("(") {
            return Err(SelectorError::Grammar(format!("found '{}' expected: '('", open.text())));
        }
        let mut values = Vec::new();
        match self.peek() {
            Token::Word(_) | Token::Symbol(",") => {
                self.list(&mut values)?;
                let close = self.next();
                if !close.is(")") {
                    return Err(SelectorError::Grammar(format!("found '{}', expected: ')'", close.text())));
                }
            }
            Token::Symbol(")") => self.at += 1,
            other => return Err(unexpected(other, "',', ')' or identifier")),
        }
        values.sort_unstable();
        values.dedup();
        if values.is_empty() {
            let why = "for 'in', 'notin' operators, values set can't be empty";
            return Err(SelectorError::Label(format!("values: Invalid value: []: {why}")));
        }
        values.iter().enumerate().map(|(at, value)| checked(key, at, value)).collect()
    }

    fn list(&mut self, values: &mut Vec<&'t str>) -> Result<(), SelectorError> {
        loop {
            match self.next() {
                Token::Word(value) => {
                    values.push(value);
                    match self.peek() {
                        Token::Symbol(",") => {}
                        Token::Symbol(")") => return Ok(()),
                        other => return Err(unexpected(other, "',' or ')'")),
                    }
                }
                Token::Symbol(",") => {
                    if values.is_empty() {
                        values.push("");
                    }
                    if self.peek().is(")") {
                        values.push("");
                        return Ok(());
                    }
                    if self.peek().is(",") {
                        self.at += 1;
                        values.push("");
                    }
                }
                other => return Err(unexpected(other, "',', or identifier")),
            }
        }
    }
}

fn checked(key: &str, at: usize, value: &str) -> Result<String, SelectorError> {
    let errors = names::label_value(value);
    if errors.is_empty() {
        return Ok(value.to_owned());
    }
    Err(SelectorError::Label(format!("values[{at}][{key}]: Invalid value: {value:?}: {}", errors.join("; "))))
}

#[cfg(test)]
mod tests {
    use super::super::LabelSelector;

    #[test]
    fn errors_are_upstreams() {
        for (text, error) in [
            ("a===", "unable to parse requirement: found '=', expected: identifier"),
            ("a in (", "unable to parse requirement: found '', expected: ',', ')' or identifier"),
            ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
            (",a", "found ',', expected: !, identifier, or 'end of string'"),
            ("a,", "found '', expected: identifier after ','"),
            ("a=b c", "found 'c', expected: ',' or 'end of string'"),
            ("a in b", "unable to parse requirement: found 'b' expected: '('"),
        ] {
            let found = LabelSelector::parse(text).expect_err(text);
            assert_eq!(found.to_string(), error, "{text}");
        }
        let selector = LabelSelector::parse("in in (b,a,b), x in (,a),y=,!z").expect("well-formed");
        assert_eq!(selector.to_string(), "in in (a,b),x in (,a),y=,!z");
    }
}
