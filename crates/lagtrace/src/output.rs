//! The options for output, which all commands have.

use std::env;
use std::path::{Path, PathBuf};

use clap::builder::styling::{AnsiColor, Styles};
use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use clap::{Arg, Args, ValueEnum};

use crate::locale;
use crate::render::{Encoder, Har, Length, Perfetto};

/// The colours of help texts.
pub(crate) const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Green.on_default().bold())
    .usage(AnsiColor::Green.on_default().bold())
    .literal(AnsiColor::Cyan.on_default().bold())
    .placeholder(AnsiColor::Cyan.on_default());

/// Options for the form of results and where they go.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct Output {
    /// Format of the report
    #[arg(
        id = "format",
        long = "format",
        global = true,
        value_enum,
        default_value_t,
        value_name = "FORMAT"
    )]
    pub(crate) form: Form,
    /// The format of the report. `Json` for forms that are not the report's: as with JSON, nothing
    /// but the document is then written to standard output.
    #[arg(skip)]
    pub(crate) format: Format,
    /// Write the report to FILE instead of standard output. A new file is for its owner only, and an
    /// old one is replaced when the report is whole
    #[arg(short, long, global = true, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Also write the result as a page for a browser; compressed if FILE ends in .gz. With `-`, the
    /// page is written to standard output instead of the report
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Replace addresses, names and paths on the page by labels, such as host-1
    #[arg(long, global = true)]
    pub(crate) redact: bool,
    /// When to use colour
    #[arg(long, global = true, value_enum, default_value_t, value_name = "WHEN")]
    pub(crate) color: Color,
    /// Use only ASCII characters in text. This is the default where LC_ALL, LC_CTYPE or LANG names a
    /// character set other than UTF-8
    #[arg(long, global = true)]
    pub(crate) ascii: bool,
    /// Print only the report, without steps and progress
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
    /// Print the whole report, and more about each step
    #[arg(short, long, global = true)]
    pub(crate) verbose: bool,
    /// Print the whole report, not only its first screen
    #[arg(long, global = true)]
    pub(crate) full: bool,
    /// Print the findings in at most 12 lines
    #[arg(long, global = true, conflicts_with_all = ["verbose", "full"])]
    pub(crate) brief: bool,
}

/// The formats that a user can request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Form {
    /// For people
    #[default]
    Text,
    /// One JSON document
    Json,
    /// One JSON object per line
    Ndjson,
    /// Comma-separated values, one line per hop (route)
    Csv,
    /// HTTP exchanges as an HTTP archive, for browsers' network panels (analyze, watch)
    Har,
    /// Exchanges and their waits as a Perfetto trace, for ui.perfetto.dev (analyze, watch)
    Perfetto,
}

impl Form {
    fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Json => "json",
            Self::Ndjson => "ndjson",
            Self::Csv => "csv",
            Self::Har => "har",
            Self::Perfetto => "perfetto",
        }
    }

    /// Returns the writer of exchanges in this form; `None` if it is not a form of exchanges.
    pub(crate) fn encoder(self) -> Option<Encoder> {
        match self {
            Self::Ndjson => Some(Encoder::Lines),
            Self::Har => Some(Encoder::Har(Har::default())),
            Self::Perfetto => Some(Encoder::Perfetto(Perfetto::default())),
            Self::Text | Self::Json | Self::Csv => None,
        }
    }
}

/// The forms of a report.
pub(crate) const REPORT: &[Form] = &[Form::Text, Form::Json, Form::Ndjson];

/// Returns the option for the format of a command that prints these.
pub(crate) fn format(forms: &[Form]) -> Arg {
    let names = forms.iter().map(|form| form.name());
    let form = |name: String| Form::from_str(&name, false).unwrap_or_default();
    Arg::new("format")
        .long("format")
        .value_name("FORMAT")
        .help("Format of the result")
        .help_heading("Output")
        .default_value("text")
        .hide(forms.len() < 2)
        .value_parser(PossibleValuesParser::new(names).map(form))
}

/// The forms of output that a command has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Offer {
    /// The formats.
    pub(crate) forms: &'static [Form],
    /// True if there is a page of the result.
    pub(crate) page: bool,
    /// True if the command makes a page even if `--html` names no file for it.
    pub(crate) always_page: bool,
}

impl Default for Offer {
    fn default() -> Self {
        Self {
            forms: REPORT,
            page: false,
            always_page: false,
        }
    }
}

impl Output {
    /// Returns true if the page takes the place of the report on standard output.
    pub(crate) fn has_page_on_stdout(&self) -> bool {
        self.html.as_deref() == Some(Path::new("-"))
    }

    /// Returns true if the data to draw the result are needed. The arrows of a Perfetto trace are
    /// among them.
    pub(crate) fn is_drawn(&self) -> bool {
        self.html.is_some() || self.form == Form::Perfetto
    }

    /// Returns true if the report goes to standard output.
    pub(crate) fn is_on_stdout(&self) -> bool {
        self.output.is_none() && !self.has_page_on_stdout()
    }

    /// Returns true if text may contain only ASCII characters.
    pub(crate) fn is_ascii(&self) -> bool {
        self.ascii || !locale::is_utf8(env::var_os)
    }

    /// Returns the length of the report to print as text.
    pub(crate) fn length(&self) -> Length {
        if self.brief {
            Length::Brief
        } else if self.verbose || self.full {
            Length::Full
        } else {
            Length::Screen
        }
    }

    /// Returns the output with its final format, or what is wrong with it for this command.
    pub(crate) fn settled(mut self, offer: Offer) -> Result<Self, &'static str> {
        self.format = match self.form {
            Form::Text => Format::Text,
            Form::Json | Form::Csv | Form::Har | Form::Perfetto => Format::Json,
            Form::Ndjson => Format::Ndjson,
        };
        match self.form {
            form if !offer.forms.contains(&form) => {
                Err("this command does not print that --format")
            }
            _ if self.html.is_some() && !offer.page => {
                Err("--html is for commands that make a report")
            }
            _ if self.redact && self.html.is_none() && !offer.always_page => {
                Err("--redact is for pages: name one with --html")
            }
            _ => Ok(self),
        }
    }
}

/// The format of a report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Format {
    /// Text for people.
    #[default]
    Text,
    /// A single JSON document.
    Json,
    /// JSON objects, one per line.
    Ndjson,
}

/// The use of colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    /// On a terminal, unless NO_COLOR is set
    #[default]
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}
