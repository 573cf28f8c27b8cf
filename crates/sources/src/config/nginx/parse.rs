//! Builds directives and their blocks from the statements of one file.

use super::lex::{Lexer, Position, Statement, Terminator, Word};
use super::lua;
use super::tree::{Directive, FileId, Place};

/// Blocks whose lines are table entries, not directives. Their contents can be long and are not
/// needed.
const TABLES: [&[u8]; 5] = [b"map", b"geo", b"types", b"charset_map", b"split_clients"];

/// Maximum nesting of blocks and inclusions together.
pub(crate) const MAX_DEPTH: usize = 64;

/// The reader of a whole configuration. A file is a part of the configuration.
pub(crate) trait Reader {
    /// Records an issue at a position in a file.
    fn note_at(&mut self, file: FileId, at: Position, text: &str);

    /// Reserves space for one more directive; returns `false` if there is none left.
    fn admit_directive(&mut self) -> bool;

    /// Returns the directives of the files that an `include` names.
    fn include(&mut self, file: FileId, at: Position, name: &Word, depth: usize) -> Vec<Directive>;
}

/// Parses text inside `depth` nested blocks and inclusions. An error ends the parsing; open blocks
/// are then closed, and everything read before the error is kept.
pub(crate) fn parse(
    reader: &mut dyn Reader,
    file: FileId,
    text: &[u8],
    depth: usize,
) -> Vec<Directive> {
    let mut parser = Parser {
        reader,
        file,
        depth,
        lexer: Lexer::new(text),
        top: Vec::new(),
        open: Vec::new(),
    };
    while parser.step() {}
    while !parser.open.is_empty() {
        parser.close();
    }
    parser.top
}

/// The state of parsing a file.
struct Parser<'p, 't> {
    reader: &'p mut dyn Reader,
    file: FileId,
    depth: usize,
    lexer: Lexer<'t>,
    /// The finished directives outside all blocks of this file.
    top: Vec<Directive>,
    /// The blocks that are open, outermost first.
    open: Vec<Directive>,
}

impl Parser<'_, '_> {
    /// Processes one statement; returns `false` at the end or after an error.
    fn step(&mut self) -> bool {
        let statement = match self.lexer.statement() {
            Ok(statement) => statement,
            Err(error) => {
                let text = format!("{} where {} was expected", error.found, error.expected);
                self.reader.note_at(self.file, error.at, &text);
                return false;
            }
        };
        match statement.end {
            Terminator::Semicolon => self.line(statement),
            Terminator::Opening => self.block(statement),
            Terminator::Closing if self.open.is_empty() => {
                self.fail(&statement, "\"}\" without an open block")
            }
            Terminator::Closing => {
                self.close();
                true
            }
            Terminator::Text => self.end(&statement),
        }
    }

    fn line(&mut self, statement: Statement) -> bool {
        if let [name, argument] = statement.words.as_slice()
            && *name == *"include"
        {
            let depth = self.depth + self.open.len();
            let included = self
                .reader
                .include(self.file, statement.at, argument, depth);
            for directive in included {
                self.push(directive);
            }
            return true;
        }
        if !self.reader.admit_directive() {
            return self.fail(&statement, "too many directives; the rest is left out");
        }
        if let Some(directive) = self.directive(statement) {
            self.push(directive);
        }
        true
    }

    fn block(&mut self, statement: Statement) -> bool {
        if self.depth + self.open.len() >= MAX_DEPTH {
            let text = format!("blocks nested deeper than {MAX_DEPTH} levels");
            return self.fail(&statement, &text);
        }
        if !self.reader.admit_directive() {
            return self.fail(&statement, "too many directives; the rest is left out");
        }
        let at = statement.at;
        let Some(mut directive) = self.directive(statement) else {
            return false;
        };
        directive.block = Some(Vec::new());
        if !lua::is_lua_block(&directive.name) {
            self.open.push(directive);
            return true;
        }
        self.push(directive);
        let is_closed = lua::skip_block(&mut self.lexer);
        if !is_closed {
            let text = "the Lua block opened here is never closed";
            self.reader.note_at(self.file, at, text);
        }
        is_closed
    }

    fn end(&mut self, statement: &Statement) -> bool {
        let Some(open) = self.open.last() else {
            return false;
        };
        let text = format!(
            "the file ends inside the block {:?} of line {}; \"}}\" was expected",
            open.name.text(),
            open.at.line
        );
        self.fail(statement, &text)
    }

    fn fail(&mut self, statement: &Statement, text: &str) -> bool {
        self.reader.note_at(self.file, statement.at, text);
        false
    }

    fn directive(&self, statement: Statement) -> Option<Directive> {
        let line = statement.at.line;
        let mut words = statement.words.into_iter();
        Some(Directive {
            name: words.next()?,
            args: words.collect(),
            at: Place {
                file: self.file,
                line,
            },
            block: None,
        })
    }

    /// Adds a finished directive to the innermost open block.
    fn push(&mut self, directive: Directive) {
        match self.open.last_mut() {
            Some(table) if TABLES.contains(&&*table.name) => {}
            Some(block) => block.block.get_or_insert_default().push(directive),
            None => self.top.push(directive),
        }
    }

    fn close(&mut self) {
        if let Some(block) = self.open.pop() {
            self.push(block);
        }
    }
}
