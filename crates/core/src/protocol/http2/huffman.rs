//! HPACK's Huffman code (RFC 7541 §5.2, appendix B).

/// The length of each symbol's code, in bits; the last symbol is EOS. The code is canonical: codes
/// of one length are consecutive in the order of symbols, and continue after the codes of the
/// previous length.
#[rustfmt::skip]
const LENGTHS: [u8; 257] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28,
    28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28,
    6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6,
    5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10,
    13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
    7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6,
    15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5,
    6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28,
    20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23,
    24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24,
    22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23,
    21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25,
    19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27,
    20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23,
    26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26,
    30,
];
const LONGEST: usize = 30;
const EOS: u16 = 256;

/// The code in the form needed for decoding: the symbols by length, and where each length begins.
struct Code {
    symbols: [u16; 257],
    /// The first code of each length, and the index of its first symbol.
    first: [(u32, usize); LONGEST + 2],
}

const CODE: Code = code();

const fn code() -> Code {
    let mut code = Code {
        symbols: [0; 257],
        first: [(0, 0); LONGEST + 2],
    };
    let (mut next, mut at, mut length) = (0_u32, 0, 1);
    while length <= LONGEST {
        next <<= 1;
        code.first[length] = (next, at);
        let mut symbol = 0;
        while symbol < 257 {
            if LENGTHS[symbol] as usize == length {
                code.symbols[at] = symbol as u16;
                at += 1;
                next += 1;
            }
            symbol += 1;
        }
        length += 1;
    }
    code.first[LONGEST + 1] = (0, at);
    code
}

/// Decodes a string. `None` if it is not a valid code, or has invalid padding.
pub(super) fn decode(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut text = Vec::with_capacity(bytes.len() * 8 / 5);
    let (mut code, mut length) = (0_u32, 0_usize);
    let bits = bytes
        .iter()
        .flat_map(|byte| (0..8).rev().map(move |shift| u32::from(byte >> shift & 1)));
    for bit in bits {
        code = code << 1 | bit;
        length += 1;
        if length > LONGEST {
            return None;
        }
        let Some(symbol) = symbol(code, length) else {
            continue;
        };
        if symbol == EOS {
            return None;
        }
        text.push(symbol as u8);
        (code, length) = (0, 0);
    }
    // Padding consists of the most significant bits of EOS, which are all ones, and has fewer than
    // eight bits.
    (length < 8 && code == (1 << length) - 1).then_some(text)
}

fn symbol(code: u32, length: usize) -> Option<u16> {
    let &(first, begin) = CODE.first.get(length)?;
    let &(_, end) = CODE.first.get(length + 1)?;
    let place = begin + code.checked_sub(first)? as usize;
    if place >= end {
        return None;
    }
    CODE.symbols.get(place).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(text: &str) -> Vec<u8> {
        let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
        let pair = |pair: &[u8]| u8::from_str_radix(core::str::from_utf8(pair).expect("ASCII"), 16);
        digits
            .chunks(2)
            .map(|two| pair(two).expect("hex"))
            .collect()
    }

    /// The examples of RFC 7541, appendix C.4 and C.6.
    #[test]
    fn the_rfc_s_examples() {
        let cases = [
            ("f1e3 c2e5 f23a 6ba0 ab90 f4ff", "www.example.com"),
            ("a8eb 1064 9cbf", "no-cache"),
            ("25a8 49e9 5ba9 7d7f", "custom-key"),
            ("25a8 49e9 5bb8 e8b4 bf", "custom-value"),
            ("6402", "302"),
            (
                "d07a be94 1054 d444 a820 0595 040b 8166 e082 a62d 1bff",
                "Mon, 21 Oct 2013 20:13:21 GMT",
            ),
        ];
        for (bytes, text) in cases {
            assert_eq!(
                decode(&hex(bytes)).as_deref(),
                Some(text.as_bytes()),
                "{bytes}"
            );
        }
    }

    #[test]
    fn the_code_is_complete_and_what_is_none_is_refused() {
        let sum: u64 = LENGTHS.iter().map(|&length| 1 << (32 - length)).sum();
        assert_eq!(sum, 1 << 32);
        assert_eq!(symbol(0x3fff_ffff, 30), Some(EOS));
        assert_eq!(decode(&[0xff; 4]), None, "EOS");
        assert_eq!(decode(&[0]), None, "padding of zeros");
    }
}
