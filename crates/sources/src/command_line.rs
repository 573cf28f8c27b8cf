//! The command line of this process, as other users see it in `ps`.

use std::{fs, io, slice};

/// Numbers of the fields of `/proc/self/stat` with the addresses of the first byte of the arguments
/// and of the byte behind them (`proc(5)`), counted from the field behind the name.
const ARG_START: usize = 48 - 3;
const ARG_END: usize = 49 - 3;

/// Lets `edit` change the bytes of the arguments in place, each of which ends with a zero. Processes
/// that this one forks later show the changed bytes too. Must be called while there is one thread,
/// after the arguments were copied.
///
/// # Errors
/// Returns an error if the kernel does not tell where they are, or if they are not there.
pub fn edit_arguments(edit: impl FnOnce(&mut [u8])) -> io::Result<()> {
    let known = fs::read("/proc/self/cmdline")?;
    let stat = fs::read_to_string("/proc/self/stat")?;
    let unknown = || io::Error::from(io::ErrorKind::InvalidData);
    let (_, fields) = stat.rsplit_once(')').ok_or_else(unknown)?;
    let fields: Vec<&str> = fields.split_whitespace().collect();
    let address = |at: usize| fields.get(at)?.parse::<usize>().ok();
    let begin = address(ARG_START).filter(|begin| *begin > 0);
    let (begin, end) = begin.zip(address(ARG_END)).ok_or_else(unknown)?;
    if end.checked_sub(begin) != Some(known.len()) || known.is_empty() {
        return Err(unknown());
    }
    let arguments = own_bytes(begin, known.len());
    if arguments != known.as_slice() {
        return Err(unknown());
    }
    edit(arguments);
    Ok(())
}

/// Returns the bytes of the arguments, at an address and with a length that the kernel told.
#[allow(unsafe_code)]
fn own_bytes(begin: usize, len: usize) -> &'static mut [u8] {
    // SAFETY: the kernel put the arguments on this process's stack, which is readable and writable
    // and lasts as long as the process. The standard library reads them only in `env::args`, and
    // no other thread runs while the caller changes them.
    unsafe { slice::from_raw_parts_mut(begin as *mut u8, len) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arguments_are_where_the_kernel_says() {
        let mut seen = Vec::new();
        edit_arguments(|bytes| seen.extend_from_slice(bytes)).expect("they are there");
        assert_eq!(seen, fs::read("/proc/self/cmdline").expect("readable"));
    }
}
