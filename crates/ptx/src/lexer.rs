//! Words and signs of a PTX text. A word holds dots: an opcode with its modifiers is one word.

use crate::error::{Error, Result};

/// A word, a sign or a string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Token<'a> {
    Word(&'a str),
    Sign(char),
    Text(&'a str),
    End,
}

/// A place in a text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lexer<'a> {
    text: &'a str,
    at: usize,
    pub(crate) line: u32,
}

const fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | b'%' | b'.')
}

impl<'a> Lexer<'a> {
    pub(crate) const fn new(text: &'a str, line: u32) -> Self {
        Self { text, at: 0, line }
    }

    pub(crate) const fn offset(&self) -> usize {
        self.at
    }

    fn byte(&self, ahead: usize) -> Option<u8> {
        self.text.as_bytes().get(self.at + ahead).copied()
    }

    fn skip_blank(&mut self) -> Result<()> {
        loop {
            match (self.byte(0), self.byte(1)) {
                (Some(b'\n'), _) => {
                    self.line += 1;
                    self.at += 1;
                }
                (Some(byte), _) if byte.is_ascii_whitespace() => self.at += 1,
                (Some(b'/'), Some(b'/')) => self.skip_line(),
                (Some(b'/'), Some(b'*')) => self.skip_comment()?,
                _ => return Ok(()),
            }
        }
    }

    /// Goes to the end of the line.
    pub(crate) fn skip_line(&mut self) {
        while self.byte(0).is_some_and(|byte| byte != b'\n') {
            self.at += 1;
        }
    }

    fn skip_comment(&mut self) -> Result<()> {
        let begun = self.line;
        self.at += 2;
        loop {
            match (self.byte(0), self.byte(1)) {
                (Some(b'*'), Some(b'/')) => {
                    self.at += 2;
                    return Ok(());
                }
                (Some(b'\n'), _) => self.line += 1,
                (None, _) => return Err(Error::at(begun, "a comment does not end")),
                _ => {}
            }
            self.at += 1;
        }
    }

    pub(crate) fn next(&mut self) -> Result<Token<'a>> {
        self.skip_blank()?;
        let start = self.at;
        let Some(first) = self.byte(0) else { return Ok(Token::End) };
        if first == b'"' {
            return self.string();
        }
        if !is_word(first) {
            let sign = self.text.get(start..).and_then(|rest| rest.chars().next());
            let sign = sign.ok_or_else(|| Error::at(self.line, "a character is cut"))?;
            self.at += sign.len_utf8();
            return Ok(Token::Sign(sign));
        }
        loop {
            match (self.byte(0), self.byte(1)) {
                (Some(byte), _) if is_word(byte) => self.at += 1,
                // `L1::no_allocate` is a modifier; `label:` is not.
                (Some(b':'), Some(b':')) => self.at += 2,
                _ => break,
            }
        }
        Ok(Token::Word(self.text.get(start..self.at).unwrap_or_default()))
    }

    fn string(&mut self) -> Result<Token<'a>> {
        let begun = self.line;
        self.at += 1;
        let start = self.at;
        loop {
            match self.byte(0) {
                Some(b'"') => break,
                Some(b'\\') => self.at += 2,
                Some(byte) => {
                    self.line += u32::from(byte == b'\n');
                    self.at += 1;
                }
                None => return Err(Error::at(begun, "a string does not end")),
            }
        }
        let inside = self.text.get(start..self.at);
        self.at += 1;
        inside.map(Token::Text).ok_or_else(|| Error::at(begun, "a character is cut"))
    }

    pub(crate) fn peek(&self) -> Result<Token<'a>> {
        let mut ahead = *self;
        ahead.next()
    }

    /// Takes the sign if it is the next token.
    pub(crate) fn take(&mut self, sign: char) -> Result<bool> {
        let mut ahead = *self;
        let found = ahead.next()? == Token::Sign(sign);
        if found {
            *self = ahead;
        }
        Ok(found)
    }

    pub(crate) fn expect(&mut self, sign: char) -> Result<()> {
        match self.next()? {
            Token::Sign(found) if found == sign => Ok(()),
            found => Err(Error::at(self.line, format_args!("expected `{sign}`, found {found:?}"))),
        }
    }

    pub(crate) fn word(&mut self) -> Result<&'a str> {
        match self.next()? {
            Token::Word(word) => Ok(word),
            found => Err(Error::at(self.line, format_args!("expected a word, found {found:?}"))),
        }
    }

    /// Goes behind the next sign of this kind that is not inside a string or a comment.
    pub(crate) fn skip_past(&mut self, sign: char) -> Result<()> {
        loop {
            match self.next()? {
                Token::Sign(found) if found == sign => return Ok(()),
                Token::End => {
                    return Err(Error::at(self.line, format_args!("expected `{sign}`, found the end")));
                }
                _ => {}
            }
        }
    }

    /// What stands between braces, the first of which was taken; goes behind the last.
    pub(crate) fn braces(&mut self) -> Result<&'a str> {
        let start = self.at;
        let mut depth = 1_u32;
        loop {
            let before = self.at;
            match self.next()? {
                Token::Sign('{') => depth += 1,
                Token::Sign('}') if depth == 1 => {
                    let end = before.max(start);
                    return Ok(self.text.get(start..end).unwrap_or_default());
                }
                Token::Sign('}') => depth -= 1,
                Token::End => return Err(Error::at(self.line, "a brace is not closed")),
                _ => {}
            }
        }
    }
}

/// An unsigned integer as PTX writes it.
pub(crate) fn integer(word: &str) -> Option<u64> {
    let word = word.strip_suffix('U').unwrap_or(word);
    let radix = |prefix: [&str; 2]| prefix.iter().find_map(|prefix| word.strip_prefix(prefix));
    if let Some(digits) = radix(["0x", "0X"]) {
        return u64::from_str_radix(digits, 16).ok();
    }
    if let Some(digits) = radix(["0b", "0B"]) {
        return u64::from_str_radix(digits, 2).ok();
    }
    match word.strip_prefix('0') {
        Some(digits) if !digits.is_empty() => u64::from_str_radix(digits, 8).ok(),
        _ => word.parse().ok(),
    }
}
