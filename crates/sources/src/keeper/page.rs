//! The page that a command shows: its private file, or the address at which the worker serves it.

use std::net::{SocketAddr, TcpListener};
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;

use super::answer::{Answer, done, gone};
use super::scope::{Page, Scope};
use super::undo::Undo;
use crate::privilege::HostError;
use crate::privilege::message::Reply;

/// Number of digits in the path of a page that is served.
const PATH_DIGITS: usize = 32;

/// The state of the one page of a run.
#[derive(Debug, Default)]
pub(super) struct ShownPage {
    /// True once its file was created.
    is_created: bool,
    /// The path of the file, once it is whole.
    kept: Option<PathBuf>,
    /// The address at which the worker serves it, once the keeper listens there.
    served: Option<SocketAddr>,
    /// True once a browser was started.
    is_shown: bool,
}

impl ShownPage {
    /// Creates the file, once.
    pub(super) fn create(&mut self, scope: &Scope, undo: &Undo) -> Answer {
        let desktop = scope.desktop.ok_or_else(|| gone("a desktop"))?;
        if std::mem::replace(&mut self.is_created, true) {
            return Err(gone("another page"));
        }
        let created = (desktop.page)().and_then(|page| {
            let copy = page.as_file().try_clone()?;
            Ok((page, copy))
        });
        let (page, copy) = created.map_err(|error| HostError::failed("creating a page", error))?;
        let path = page.path().as_os_str().to_owned().into_vec();
        *undo.page() = Some(page);
        Ok((Reply::Bytes(path), vec![copy.into()]))
    }

    /// Keeps the file, because it is whole.
    pub(super) fn keep(&mut self, undo: &Undo) -> Answer {
        let page = undo.page().take();
        let page = page.ok_or_else(|| gone("the page"))?;
        let kept = page.into_temp_path().keep();
        let kept = kept.map_err(|error| HostError::failed("keeping the page", error.error))?;
        self.kept = Some(kept);
        done(None)
    }

    /// Listens for the worker at the address of the command line, so that the port is known.
    pub(super) fn listen(&mut self, scope: &Scope) -> Answer {
        let address = scope.serves_at.filter(|_| self.served.is_none());
        let address = address.ok_or_else(|| gone("an address to listen at"))?;
        let bound = TcpListener::bind(address);
        let listener = bound.map_err(|error| HostError::failed("listening", error))?;
        self.served = listener.local_addr().ok();
        done(Some(listener.into()))
    }

    /// Shows the page, once. The answer has the reason if it is not shown.
    pub(super) fn show(&mut self, scope: &Scope, url: Option<&str>) -> Answer {
        let desktop = scope.desktop.ok_or_else(|| gone("a desktop"))?;
        let is_ours = |url: &&str| self.served.is_some_and(|at| is_page_of(url, at));
        let page = match url {
            Some(_) => url.filter(is_ours).map(Page::Url),
            None => self.kept.as_deref().map(Page::File),
        };
        let page = page.ok_or_else(|| gone("the page"))?;
        if std::mem::replace(&mut self.is_shown, true) {
            return Err(gone("another browser"));
        }
        let reason = (desktop.open)(page).err().unwrap_or_default();
        Ok((Reply::Bytes(reason.into_bytes()), Vec::new()))
    }
}

/// Returns true for the URL of a page that the worker serves at this address: its path consists of
/// random digits.
fn is_page_of(url: &str, served: SocketAddr) -> bool {
    let path = url.strip_prefix(&format!("http://{served}/"));
    let digits = path.and_then(|path| path.strip_suffix('/'));
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    digits.is_some_and(|digits| digits.len() == PATH_DIGITS && digits.bytes().all(is_digit))
}
