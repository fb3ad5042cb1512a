//! What is wrong with a file, told the way a compiler tells it.

use std::fmt;
use std::ops::Range;

use annotate_snippets::{Annotation, AnnotationKind, Group, Level, Renderer, Snippet};

use super::checker::MAX_FINDINGS;
use crate::words::counted;

/// One thing wrong with a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// What is wrong: a lower-case fragment with the value in backticks.
    pub message: String,
    /// Line, counted from 1.
    pub line: usize,
    /// Column in characters, counted from 1.
    pub column: usize,
    /// What to do, where there is something to say.
    pub help: Option<String>,
    finding: Finding,
}

/// Where a mistake is, before lines are counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Finding {
    pub(super) span: Range<usize>,
    pub(super) message: String,
    pub(super) label: Option<String>,
    pub(super) help: Option<String>,
    /// Another place that has to do with it, and what it is.
    pub(super) also: Option<(Range<usize>, String)>,
}

impl Finding {
    pub(super) fn new(span: &Range<usize>, message: impl Into<String>) -> Self {
        Self { span: span.clone(), message: message.into(), ..Self::default() }
    }

    pub(super) fn label(mut self, label: impl Into<String>) -> Self {
        self.label = Some(label.into());
        self
    }

    pub(super) fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    pub(super) fn also(mut self, span: &Range<usize>, label: impl Into<String>) -> Self {
        self.also = Some((span.clone(), label.into()));
        self
    }
}

/// Everything wrong with a file, in the order of its lines; never empty.
///
/// `Display` writes each mistake with its line, a caret and a hint, and ends with how many there are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistakes {
    source_name: String,
    text: String,
    mistakes: Vec<Mistake>,
}

impl Mistakes {
    /// `text` is what the findings' spans are in; empty where the file was not looked at.
    pub(super) fn new(source_name: &str, text: &str, mut findings: Vec<Finding>) -> Self {
        for finding in &mut findings {
            finding.span = visible(text, &finding.span);
            if let Some((span, _)) = &mut finding.also {
                *span = visible(text, span);
            }
        }
        findings.sort_by_key(|finding| finding.span.start);
        let mut lines = LineCounter::new(text);
        let mistakes = findings.into_iter().map(|finding| lines.place(finding)).collect();
        Self { source_name: source_name.to_owned(), text: text.to_owned(), mistakes }
    }

    /// The mistakes, in the order of their lines.
    pub fn iter(&self) -> std::slice::Iter<'_, Mistake> {
        self.mistakes.iter()
    }

    /// What the file was called.
    pub fn source_name(&self) -> &str {
        &self.source_name
    }
}

impl<'a> IntoIterator for &'a Mistakes {
    type Item = &'a Mistake;
    type IntoIter = std::slice::Iter<'a, Mistake>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// More are counted, not printed: nobody repairs the fifty-first before the first.
const MAX_PRINTED: usize = 50;

impl fmt::Display for Mistakes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let renderer = Renderer::plain();
        for mistake in self.mistakes.iter().take(MAX_PRINTED) {
            writeln!(f, "{}\n", renderer.render(&[self.report(mistake)]))?;
        }
        let more = if self.mistakes.len() == MAX_FINDINGS { " or more" } else { "" };
        write!(f, "{}{more} in {}", counted(self.mistakes.len(), "mistake"), self.source_name)?;
        if self.mistakes.len() > MAX_PRINTED {
            write!(f, ", the first {MAX_PRINTED} are shown")?;
        }
        Ok(())
    }
}

impl std::error::Error for Mistakes {}

impl Mistakes {
    fn report<'a>(&'a self, mistake: &'a Mistake) -> Group<'a> {
        let Finding { span, label, also, .. } = &mistake.finding;
        let mut window = Window::around(&self.text, span, mistake.line);
        let (near, far) = match also {
            Some(note) if window.widen(&note.0) => (Some(note), None),
            note => (None, note.as_ref()),
        };
        let snippet = window
            .snippet(&self.source_name)
            .annotation(window.annotation(AnnotationKind::Primary, span, label.as_deref()))
            .annotations(near.map(|(at, label)| window.annotation(AnnotationKind::Context, at, Some(label))));
        Level::ERROR
            .primary_title(&mistake.message)
            .element(snippet)
            .elements(far.map(|(at, label)| self.elsewhere(at, label)))
            .elements(mistake.help.as_deref().map(|help| Level::HELP.message(help)))
    }

    /// A place too far from the mistake to be shown in one piece with it.
    fn elsewhere<'a>(&'a self, at: &Range<usize>, label: &'a str) -> Snippet<'a, Annotation<'a>> {
        let window = Window::around(&self.text, at, line_of(&self.text, at.start));
        let note = window.annotation(AnnotationKind::Primary, at, Some(label));
        window.snippet(&self.source_name).annotation(note)
    }
}

/// The lines that are shown: rendering looks at all it is given, and a file may be large.
struct Window<'a> {
    text: &'a str,
    bytes: Range<usize>,
    first_line: usize,
}

impl<'a> Window<'a> {
    /// Bytes between two places that are still shown as one piece.
    const REACH: usize = 4096;

    fn around(text: &'a str, span: &Range<usize>, first_line: usize) -> Self {
        Self { text, bytes: line_start(text, span.start)..line_end(text, span.end), first_line }
    }

    /// Takes in another place, if it is near.
    fn widen(&mut self, place: &Range<usize>) -> bool {
        let bytes = self.bytes.start.min(line_start(self.text, place.start))
            ..self.bytes.end.max(line_end(self.text, place.end));
        let near = bytes.len() <= Self::REACH.max(self.bytes.len());
        if near {
            self.first_line -= self.text[bytes.start..self.bytes.start].matches('\n').count();
            self.bytes = bytes;
        }
        near
    }

    fn snippet(&self, source_name: &'a str) -> Snippet<'a, Annotation<'a>> {
        Snippet::source(&self.text[self.bytes.clone()]).line_start(self.first_line).path(source_name)
    }

    fn annotation(
        &self,
        kind: AnnotationKind,
        span: &Range<usize>,
        label: Option<&'a str>,
    ) -> Annotation<'a> {
        kind.span(span.start - self.bytes.start..span.end - self.bytes.start).label(label)
    }
}

/// Counts lines in one pass over findings that come in order.
struct LineCounter<'a> {
    text: &'a str,
    counted_to: usize,
    line: usize,
}

impl<'a> LineCounter<'a> {
    fn new(text: &'a str) -> Self {
        Self { text, counted_to: 0, line: 1 }
    }

    fn place(&mut self, finding: Finding) -> Mistake {
        let at = finding.span.start;
        self.line += self.text[self.counted_to..at].matches('\n').count();
        self.counted_to = at;
        Mistake {
            message: finding.message.clone(),
            line: self.line,
            column: self.text[line_start(self.text, at)..at].chars().count() + 1,
            help: finding.help.clone(),
            finding,
        }
    }
}

fn line_of(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count() + 1
}

fn line_start(text: &str, at: usize) -> usize {
    text[..at].rfind('\n').map_or(0, |newline| newline + 1)
}

fn line_end(text: &str, at: usize) -> usize {
    text[at..].find('\n').map_or(text.len(), |newline| at + newline)
}

/// Characters that carets stand under; a longer span is told by its beginning.
const MAX_CARETS: usize = 100;

/// The span cut to its first line and to whole characters, inside the text, and moved off trailing blank lines: the
/// end of a file is best pointed at where something is written.
fn visible(text: &str, span: &Range<usize>) -> Range<usize> {
    let start = text.floor_char_boundary(span.start.min(text.trim_end().len()));
    let end = span.end.min(line_end(text, start));
    let carets = text[start..].chars().take(MAX_CARETS).map(char::len_utf8).sum::<usize>();
    start..text.floor_char_boundary(end.clamp(start, start + carets))
}
