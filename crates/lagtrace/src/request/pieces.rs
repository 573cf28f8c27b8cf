//! The parts of a body, in the order of the command line: curl joins parts of different options.

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};

/// A part of a body, in the notation of its option.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Piece {
    /// Text, or a file without its line ends (`@FILE`).
    Data(Vec<u8>),
    /// Text; an `@` has no meaning.
    Raw(Vec<u8>),
    /// Text, or a file as it is.
    Binary(Vec<u8>),
    /// Text or a file to be percent-encoded: `CONTENT`, `NAME=CONTENT`, `@FILE`, `NAME@FILE`.
    Encoded(Vec<u8>),
    /// A part of a JSON document.
    Json(Vec<u8>),
    /// A field of a form: `NAME=CONTENT`, `NAME=@FILE`, `NAME=<FILE`, with `;type=` and `;filename=`.
    Form(Vec<u8>),
    /// A field of a form whose content has no notation.
    FormString(Vec<u8>),
}

/// The parts of a body, in order.
#[derive(Clone, Default)]
pub(crate) struct Pieces(pub(crate) Vec<Piece>);

impl std::fmt::Debug for Pieces {
    /// Writes no content, because it can be a secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} pieces", self.0.len())
    }
}

/// An option: its name, the name of its value, its help, and the piece that it gives.
type Kind = (
    &'static str,
    &'static str,
    &'static str,
    fn(Vec<u8>) -> Piece,
);

const KINDS: [Kind; 7] = [
    (
        "data",
        "DATA",
        "Send DATA as the body, with POST; @FILE is a file without its line ends, @- standard \
         input. Several are joined by &. (-d is the duration of the load)",
        Piece::Data,
    ),
    (
        "data-raw",
        "DATA",
        "Like --data, but @ has no meaning",
        Piece::Raw,
    ),
    (
        "data-binary",
        "DATA",
        "Like --data, but a file is sent as it is",
        Piece::Binary,
    ),
    (
        "data-urlencode",
        "DATA",
        "Like --data, percent-encoded: CONTENT, NAME=CONTENT, @FILE or NAME@FILE",
        Piece::Encoded,
    ),
    (
        "json",
        "DATA",
        "Like --data-binary, with the header fields of JSON",
        Piece::Json,
    ),
    (
        "form",
        "NAME=CONTENT",
        "Send a field of a multipart form: NAME=CONTENT, NAME=@FILE (an upload) or NAME=<FILE, \
         with ;type=… and ;filename=…",
        Piece::Form,
    ),
    (
        "form-string",
        "NAME=CONTENT",
        "Like --form, but @, < and ; have no meaning",
        Piece::FormString,
    ),
];

impl Args for Pieces {
    fn augment_args(command: Command) -> Command {
        KINDS
            .iter()
            .fold(command, |command, &(name, value, help, _)| {
                let mut option = Arg::new(name)
                    .long(name)
                    .value_name(value)
                    .help(help)
                    .help_heading("Request")
                    .action(ArgAction::Append)
                    .allow_hyphen_values(true);
                if name == "form" {
                    option = option.short('F');
                }
                if name == "data" {
                    option = option.alias("data-ascii");
                }
                command.arg(option)
            })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Pieces {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut found: Vec<(usize, Piece)> = Vec::new();
        for (name, _, _, piece) in KINDS {
            let values = matches.get_many::<String>(name).into_iter().flatten();
            let places = matches.indices_of(name).into_iter().flatten();
            let pieces = values.map(|value| piece(value.clone().into_bytes()));
            found.extend(places.zip(pieces));
        }
        found.sort_by_key(|(place, _)| *place);
        Ok(Self(found.into_iter().map(|(_, piece)| piece).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
