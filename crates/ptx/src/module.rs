//! What a PTX text declares: functions with their parameters, and variables with their first contents. Bodies are only
//! found here, and read when they are asked for: a text has hundreds, of which a program launches a few.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use crate::body::Body;
use crate::error::{Error, Result, Unsupported};
use crate::instruction;
use crate::lexer::{Lexer, Token, integer};
use crate::types::{Space, Type};

/// A PTX text.
#[derive(Clone, Debug)]
pub struct Module {
    text: Arc<str>,
    /// Its functions, kernels and others.
    pub functions: Vec<Function>,
    /// Its variables.
    pub variables: Vec<Variable>,
    pub(crate) function_names: BTreeMap<String, usize>,
    pub(crate) variable_names: BTreeMap<String, usize>,
}

/// A kernel, or a function that kernels call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Its name, mangled.
    pub name: String,
    /// Whether it is a kernel.
    pub is_entry: bool,
    /// Its results.
    pub returns: Vec<Param>,
    /// Its parameters.
    pub params: Vec<Param>,
    /// The most threads of a block, where the kernel bounds them (`.maxntid`, `.reqntid`).
    pub threads_max: Option<u32>,
    /// Where its body stands, and in which line that begins.
    body: Option<(Range<usize>, u32)>,
}

/// A parameter or a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Param {
    /// Its name.
    pub name: String,
    /// Where it lies behind the first.
    pub offset: u64,
    /// Its size.
    pub bytes: u64,
}

/// A variable of a module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    /// Its name, mangled.
    pub name: String,
    /// Where it lives: global, constant or shared memory.
    pub space: Space,
    /// Its size; 0 where another module or the launch decides.
    pub bytes: u64,
    /// What its address is a multiple of.
    pub align: u64,
    /// Whether another module defines it.
    pub is_external: bool,
    /// Whether the host may use it, too.
    pub is_managed: bool,
    /// What it holds first, the rest being zeros.
    pub contents: Vec<u8>,
    /// Addresses among its contents: where, of which variable, and how far into it.
    pub pointers: Vec<Item>,
}

/// An address in a variable's contents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// Where in the contents it stands, 8 bytes long.
    pub at: usize,
    /// What it is the address of.
    pub name: String,
    /// How far into that.
    pub addend: i64,
}

/// More than this a variable does not have: what claims more is not read.
const VARIABLE_BYTES_MAX: u64 = 1 << 34;
/// More than this of first contents is not read.
const CONTENTS_MAX: usize = 256 << 20;

impl Module {
    /// Reads the declarations of a text.
    ///
    /// # Errors
    /// Where it is no PTX, with the line.
    pub fn parse(text: &str) -> Result<Self> {
        let text: Arc<str> = text.into();
        let mut module = Self {
            text: Arc::clone(&text),
            functions: Vec::new(),
            variables: Vec::new(),
            function_names: BTreeMap::new(),
            variable_names: BTreeMap::new(),
        };
        let mut reader = Reader { lexer: Lexer::new(&text, 1), module: &mut module };
        reader.run()?;
        Ok(module)
    }

    /// A function by its name.
    pub fn function(&self, name: &str) -> Option<&Function> {
        self.functions.get(*self.function_names.get(name)?)
    }

    /// The place of a variable by its name.
    pub fn variable(&self, name: &str) -> Option<usize> {
        self.variable_names.get(name).copied()
    }

    /// Reads a function's body.
    ///
    /// # Errors
    /// Where it does what is not translated, or cannot be read.
    pub fn body(&self, function: &Function) -> std::result::Result<Body, Unsupported> {
        let Some((range, line)) = &function.body else {
            return Err(Unsupported::new(format!(
                "calls `{}`, which the module does not define",
                function.name
            )));
        };
        let text = self.text.get(range.clone()).unwrap_or_default();
        instruction::read(self, function, text, *line)
    }
}

/// Words before a declaration that change nothing here.
const LINKAGE: &[&str] = &[".visible", ".weak", ".common", ".noreturn"];

struct Reader<'a, 'm> {
    lexer: Lexer<'a>,
    module: &'m mut Module,
}

impl<'a> Reader<'a, '_> {
    fn run(&mut self) -> Result<()> {
        let mut has_version = false;
        let mut is_external = false;
        loop {
            let token = self.lexer.next()?;
            let Token::Word(word) = token else {
                match token {
                    Token::End if has_version => return Ok(()),
                    Token::End => return Err(Error::at(self.lexer.line, "there is no .version")),
                    Token::Sign(';') => continue,
                    found => return Err(self.wrong(format_args!("{found:?} begins no declaration"))),
                }
            };
            match word {
                ".version" => {
                    has_version = true;
                    self.lexer.next()?;
                }
                ".address_size" => self.address_size()?,
                ".target" | ".file" | ".loc" => self.rest_of_list(word)?,
                ".section" | "@@DWARF" => {
                    self.lexer.skip_past('{')?;
                    self.lexer.braces()?;
                }
                ".pragma" | ".alias" => self.lexer.skip_past(';')?,
                ".extern" => is_external = true,
                word if LINKAGE.contains(&word) => {}
                ".entry" | ".func" => {
                    self.function(word == ".entry")?;
                    is_external = false;
                }
                ".global" | ".const" | ".shared" => {
                    let space = match word {
                        ".global" => Space::Global,
                        ".const" => Space::Const,
                        _ => Space::Shared,
                    };
                    self.variables(space, is_external)?;
                    is_external = false;
                }
                ".tex" | ".surf" | ".texref" | ".samplerref" => self.lexer.skip_past(';')?,
                word => return Err(self.wrong(format_args!("`{word}` begins no declaration"))),
            }
        }
    }

    fn wrong(&self, text: impl std::fmt::Display) -> Error {
        Error::at(self.lexer.line, text)
    }

    fn address_size(&mut self) -> Result<()> {
        match self.lexer.word()? {
            "64" => Ok(()),
            other => Err(self.wrong(format_args!("addresses of {other} bits are not supported, only of 64"))),
        }
    }

    /// Words and numbers up to what begins the next declaration.
    fn rest_of_list(&mut self, word: &str) -> Result<()> {
        if word == ".target" {
            self.lexer.word()?;
            while self.lexer.take(',')? {
                self.lexer.word()?;
            }
        } else {
            self.lexer.skip_line();
        }
        Ok(())
    }

    fn function(&mut self, is_entry: bool) -> Result<()> {
        let mut returns = Vec::new();
        while self.lexer.peek()? == Token::Word(".attribute") {
            self.lexer.next()?;
            self.lexer.skip_past(')')?;
        }
        if self.lexer.take('(')? {
            returns = self.params()?;
        }
        let name = self.lexer.word()?.to_owned();
        let params = if self.lexer.take('(')? { self.params()? } else { Vec::new() };
        let mut function = Function { name, is_entry, returns, params, threads_max: None, body: None };
        loop {
            match self.lexer.next()? {
                Token::Sign(';') => break,
                Token::Sign('{') => {
                    let (line, start) = (self.lexer.line, self.lexer.offset());
                    let inside = self.lexer.braces()?;
                    function.body = Some((start..start + inside.len(), line));
                    break;
                }
                Token::Word(".maxntid" | ".reqntid") => function.threads_max = Some(self.product()?),
                Token::Word(_) | Token::Sign(',') => {}
                found => return Err(self.wrong(format_args!("{found:?} in the head of a function"))),
            }
        }
        self.keep(function);
        Ok(())
    }

    fn keep(&mut self, function: Function) {
        if let Some(known) = self.module.function_names.get(&function.name)
            && let Some(slot) = self.module.functions.get_mut(*known)
        {
            // A definition replaces a declaration, and nothing else does.
            if function.body.is_some() {
                *slot = function;
            }
            return;
        }
        self.module.function_names.insert(function.name.clone(), self.module.functions.len());
        self.module.functions.push(function);
    }

    fn product(&mut self) -> Result<u32> {
        let mut product = 1_u64;
        loop {
            product = product.saturating_mul(self.number()?);
            if !self.lexer.take(',')? {
                return Ok(u32::try_from(product).unwrap_or(u32::MAX));
            }
        }
    }

    fn number(&mut self) -> Result<u64> {
        let word = self.lexer.word()?;
        integer(word).ok_or_else(|| self.wrong(format_args!("`{word}` is no number")))
    }

    /// Parameters up to the closing parenthesis.
    fn params(&mut self) -> Result<Vec<Param>> {
        let mut params = Vec::new();
        let mut end = 0_u64;
        if self.lexer.take(')')? {
            return Ok(params);
        }
        loop {
            let declared = declaration(&mut self.lexer)?;
            let offset = end.checked_next_multiple_of(declared.align);
            let offset = offset.ok_or_else(|| self.wrong("parameters exceed the address space"))?;
            end = offset.saturating_add(declared.bytes);
            params.push(Param { name: declared.name.to_owned(), offset, bytes: declared.bytes });
            match self.lexer.next()? {
                Token::Sign(',') => {}
                Token::Sign(')') => return Ok(params),
                found => return Err(self.wrong(format_args!("{found:?} among parameters"))),
            }
        }
    }

    fn variables(&mut self, space: Space, is_external: bool) -> Result<()> {
        let head = Head::read(&mut self.lexer)?;
        loop {
            let declared = head.named(&mut self.lexer)?;
            let mut variable = Variable {
                name: declared.name.to_owned(),
                space,
                bytes: declared.bytes,
                align: declared.align.max(1),
                is_external,
                is_managed: declared.is_managed,
                contents: Vec::new(),
                pointers: Vec::new(),
            };
            if self.lexer.take('=')? {
                self.contents(declared.ty, &mut variable)?;
            }
            variable.bytes = variable.bytes.max(variable.contents.len() as u64);
            self.module.variable_names.insert(variable.name.clone(), self.module.variables.len());
            self.module.variables.push(variable);
            if !self.lexer.take(',')? {
                break;
            }
        }
        self.lexer.expect(';')
    }

    /// First contents: a value, or values in braces, as deep as arrays are.
    fn contents(&mut self, ty: Type, variable: &mut Variable) -> Result<()> {
        let mut depth = 0_u32;
        loop {
            match self.lexer.next()? {
                Token::Sign('{') => depth += 1,
                Token::Sign('}') => depth = depth.saturating_sub(1),
                Token::Sign(',') => {}
                Token::Sign('-') => {
                    let value = self.number()?;
                    self.push(ty, value.wrapping_neg(), variable)?;
                }
                Token::Word(word) => self.value(ty, word, variable)?,
                found => return Err(self.wrong(format_args!("{found:?} in a variable's contents"))),
            }
            if depth == 0 {
                return Ok(());
            }
        }
    }

    fn value(&mut self, ty: Type, word: &'a str, variable: &mut Variable) -> Result<()> {
        let bits = if let Some(digits) = word.strip_prefix("0f").or_else(|| word.strip_prefix("0F")) {
            u64::from_str_radix(digits, 16).ok()
        } else if let Some(digits) = word.strip_prefix("0d").or_else(|| word.strip_prefix("0D")) {
            u64::from_str_radix(digits, 16).ok()
        } else {
            integer(word)
        };
        if let Some(bits) = bits {
            return self.push(ty, bits, variable);
        }
        // The address of something: `name`, `generic(name)`, and behind it `+number`.
        let mut name = word;
        if self.lexer.take('(')? {
            name = self.lexer.word()?;
            self.lexer.expect(')')?;
        }
        let mut addend = 0_i64;
        if self.lexer.take('+')? {
            let minus = self.lexer.take('-')?;
            let value = self.number()?.cast_signed();
            addend = if minus { value.wrapping_neg() } else { value };
        }
        if ty.bytes() != 8 {
            return Err(self.wrong(format_args!("the address of `{name}` does not fit its element")));
        }
        variable.pointers.push(Item { at: variable.contents.len(), name: name.to_owned(), addend });
        self.push(ty, 0, variable)
    }

    fn push(&self, ty: Type, bits: u64, variable: &mut Variable) -> Result<()> {
        let bytes = bits.to_le_bytes();
        let width = usize::try_from(ty.bytes()).unwrap_or(8);
        if variable.contents.len() > CONTENTS_MAX {
            return Err(self.wrong("a variable's contents are longer than is read"));
        }
        variable.contents.extend_from_slice(bytes.get(..width).unwrap_or(&bytes));
        Ok(())
    }
}

/// The part of a declaration that several names share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head {
    ty: Type,
    align: Option<u64>,
    vector: u64,
    is_managed: bool,
}

/// A name with its size.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Declared<'a> {
    pub(crate) name: &'a str,
    pub(crate) ty: Type,
    pub(crate) align: u64,
    pub(crate) bytes: u64,
    pub(crate) is_managed: bool,
    /// The number in `name<number>`.
    pub(crate) count: Option<u64>,
}

impl Head {
    /// Reads up to the name.
    pub(crate) fn read(lexer: &mut Lexer<'_>) -> Result<Self> {
        let mut head = Self { ty: Type::B8, align: None, vector: 1, is_managed: false };
        let mut is_pointer = false;
        while let Token::Word(word) = lexer.peek()?
            && let Some(word) = word.strip_prefix('.')
        {
            lexer.next()?;
            match word {
                "align" => {
                    let number = lexer.word()?;
                    let align = integer(number).filter(|align| align.is_power_of_two() && *align <= 1 << 20);
                    let align =
                        align.ok_or_else(|| Error::at(lexer.line, "an alignment is no power of 2"))?;
                    // Behind `.ptr` it is said of what the parameter points to.
                    if !is_pointer {
                        head.align = Some(align);
                    }
                }
                "attribute" => {
                    lexer.expect('(')?;
                    head.is_managed = lexer.peek()? == Token::Word(".managed");
                    lexer.skip_past(')')?;
                }
                "v2" => head.vector = 2,
                "v4" => head.vector = 4,
                "ptr" => is_pointer = true,
                "param" | "reg" | "global" | "const" | "local" | "shared" | "volatile" => {}
                word => {
                    head.ty = Type::from_name(word)
                        .ok_or_else(|| Error::at(lexer.line, format_args!("`.{word}` is no type")))?;
                }
            }
        }
        Ok(head)
    }

    /// Reads a name and what stands behind it.
    pub(crate) fn named<'a>(&self, lexer: &mut Lexer<'a>) -> Result<Declared<'a>> {
        let name = lexer.word()?;
        let element = u64::from(self.ty.bytes()) * self.vector;
        let mut bytes = element;
        let mut count = None;
        let number = |lexer: &mut Lexer<'_>| {
            let word = lexer.word()?;
            integer(word).ok_or_else(|| Error::at(lexer.line, format_args!("`{word}` is no number")))
        };
        if lexer.take('<')? {
            count = Some(number(lexer)?);
            lexer.expect('>')?;
        }
        while lexer.take('[')? {
            // Without a number, whoever fills it says how long it is.
            let side = if lexer.peek()? == Token::Sign(']') { 0 } else { number(lexer)? };
            lexer.expect(']')?;
            bytes = bytes.saturating_mul(side);
        }
        if bytes > VARIABLE_BYTES_MAX {
            return Err(Error::at(lexer.line, format_args!("`{name}` has {bytes} bytes")));
        }
        let align = self.align.unwrap_or(element).max(1);
        let align = if align.is_power_of_two() { align } else { 16 };
        Ok(Declared { name, ty: self.ty, align, bytes, is_managed: self.is_managed, count })
    }
}

/// One declared name.
pub(crate) fn declaration<'a>(lexer: &mut Lexer<'a>) -> Result<Declared<'a>> {
    Head::read(lexer)?.named(lexer)
}
