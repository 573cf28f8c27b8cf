//! The command `lagtrace view`, which shows a report or a capture as a page in a browser.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use anyhow::Context as _;
use clap::Args;
use lagtrace_sources::keeper;

use crate::analyze::{self, picture::Again};
use crate::confinement::Needs;
use crate::console::Console;
use crate::delivery::deliver;
use crate::exit::Outcome;
use crate::failure::{Failure, Result};
use crate::interrupt::Interrupt;
use crate::page::{self, Shown};
use crate::render::html::{Document, Place};
use crate::saved::{self, Saved};

mod desktop;
mod place;
pub(crate) mod serve;

use desktop::Target;
use place::{Private, Reader};
use serve::{Capture, Reading, ServedPage, Server, Version};

/// The options of `lagtrace view`.
#[derive(Debug, Args)]
#[command(after_help = "\
The page is one file without references to others, in $XDG_RUNTIME_DIR or the
folder for temporary files, readable only for its owner, and stays until you
remove it. Nothing is sent anywhere. With --html FILE the page is written there
and not opened. Started by sudo, the page belongs to the user who started it,
and no browser runs as root.

--serve serves the page until Ctrl-C, for a browser that cannot read the file:
at a path that cannot be guessed, and on this host only, unless ADDR says
otherwise. Who can reach ADDR and knows the path can read the page; of the users
of this host, only you and root can, and all of them if root serves it without
sudo. The served page of a capture also lists the exchanges of a selection in
latency over time, and opens each down to its packets.

Examples:
  lagtrace view report.json
  lagtrace view slow.pcap
  lagtrace view client.pcap server.pcap
  lagtrace view slow.pcap --redact --html to-share.html
  lagtrace view comparison.json.gz --no-open
  lagtrace view slow.pcap --serve=127.0.0.1:8000 --no-open")]
pub(crate) struct Options {
    /// A report, a comparison or a score (JSON, or JSON compressed by gzip), or captures
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Only print the path or URL of the page
    #[arg(long)]
    no_open: bool,
    /// Serve the page at ADDR [default: a free port of 127.0.0.1] instead of writing a file
    #[arg(
        long,
        value_name = "ADDR",
        num_args = 0..=1,
        require_equals = true,
        value_parser = serve::parse_address
    )]
    serve: Option<Option<SocketAddr>>,
}

/// Makes the page, prints its path and opens it.
pub(crate) fn run(options: &Options, console: &Console) -> Result<Outcome> {
    let served = options
        .serve
        .map(|address| address.unwrap_or(serve::DEFAULT));
    if served.is_some() && console.output().html.is_some() {
        let failure = Failure::new("the page is served or written to a file, not both");
        return Err(failure.hint("leave out --serve, or --html"));
    }
    let interrupt = Interrupt::listen()?;
    let Some((shown, again)) = shown(&options.files, &interrupt, console)? else {
        return Ok(Outcome::Interrupted);
    };
    if let Some(address) = served {
        let capture = again.and_then(|again| capture(again, &shown, console));
        // A page whose server has nothing to add is complete, as in a file.
        let place = capture.as_ref().map_or(Place::File, |_| Place::Server);
        let page = page::made(shown, place, console);
        let page = ServedPage::new(Version::only(page));
        let server = Server::bind(address, Arc::new(page), capture)?;
        tell(
            options,
            &Target::Server(&server.url(), server.port()),
            console,
        )?;
        server.run(&interrupt)?;
        return Ok(Outcome::Clean);
    }
    if let Some(path) = &console.output().html {
        page::write(path, shown, console)?;
        return Ok(Outcome::Clean);
    }
    let mut private = Private::create()?;
    page::write_to(private.file(), shown, console).context("cannot write the page")?;
    let page = private.keep().context("keep the page")?;
    tell(options, &Target::File(&page), console)?;
    Ok(Outcome::Clean)
}

/// Returns what the server needs to show more of the capture than the page has; `None` if the
/// captures cannot be read again, or if they would show what is redacted.
fn capture(again: Again, shown: &Shown, console: &Console) -> Option<Capture> {
    let (_, picture) = shown.document.drawn()?;
    let can_read = !console.output().redact && again.is_of_files();
    let exchanges = picture.exchanges.iter().map(|it| it.exchange.clone());
    can_read.then(|| Capture {
        exchanges: exchanges.collect(),
        services: picture.services.clone(),
        start_ns: picture.raster.start_ns,
        reading: Mutex::new(Reading::new(again)),
    })
}

/// Prints where the page is, and opens it.
fn tell(options: &Options, target: &Target<'_>, console: &Console) -> Result<()> {
    deliver(console, &format!("{target}\n"))?;
    if !options.no_open
        && let Err(reason) = show(target)
    {
        console.note(&reason);
    }
    Ok(())
}

/// Opens the page, by the keeper if there is one.
fn show(target: &Target<'_>) -> std::result::Result<(), String> {
    let page = match target {
        Target::File(path) => keeper::Page::File(path),
        Target::Server(url, _) => keeper::Page::Url(url),
    };
    keeper::show(page).unwrap_or_else(|| desktop::open(target, &Reader::of_this_run()))
}

impl Options {
    /// Returns what the command needs although it is confined.
    pub(crate) fn needs(&self) -> Needs {
        let mut needs = Needs::files();
        let served = self.serve.map(|address| address.unwrap_or(serve::DEFAULT));
        needs.rules.network = served.is_some();
        needs.scope.serves_at = served;
        needs.rules.ports = Some(Vec::new());
        needs.scope.desktop = Some(keeper::Desktop {
            page: || place::temporary(&Reader::of_this_run()),
            open: |page| desktop::open(&Target::of(page), &Reader::of_this_run()),
        });
        needs
    }
}

/// Returns what the files show, and the captures to read packets of; `None` if the user stopped the
/// analysis before there was a report.
fn shown(
    files: &[PathBuf],
    interrupt: &Interrupt,
    console: &Console,
) -> Result<Option<(Shown, Option<Again>)>> {
    if let [path] = files
        && is_document(path)
    {
        let shown = match saved::any(path)? {
            Saved::Report(report) => Document::of_report(&report, None).into(),
            Saved::Comparison(comparison) => {
                Document::of_comparison(&comparison, None, None).into()
            }
            Saved::Verified(both) => {
                Document::of_comparison(&both.comparison, None, Some(&both.report)).into()
            }
            Saved::Score(score, summary) => Shown {
                document: Document::of_score(score),
                text: summary.blocks(),
            },
        };
        return Ok(Some((shown, None)));
    }
    if let Some(path) = files.iter().find(|path| is_document(path)) {
        let failure = format!("{} is a report: it is shown alone", path.display());
        let hint = "`lagtrace compare BEFORE.json AFTER.json --html FILE` shows two reports";
        return Err(Failure::new(failure).hint(hint));
    }
    let progress = console.bytes("reading", 0);
    let analysed = analyze::pictured(files, &progress, interrupt)?;
    Ok(analysed.map(|it| {
        let document = Document::of_report(&it.report, it.picture);
        (document.into(), Some(it.again))
    }))
}

/// Returns true if a file is a JSON document. A file that cannot be read is not: the analysis says
/// why.
fn is_document(path: &Path) -> bool {
    path != Path::new("-") && saved::is_document(path).unwrap_or_default()
}
