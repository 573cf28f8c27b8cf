import assert from "node:assert/strict";
import { test } from "node:test";
import { after, bytes, count, difference, duration, rate, share } from "../../src/quantity.ts";

// The same cases as in crates/lagtrace/src/render/quantity.rs.
test("durations have three digits", () => {
    const cases: [number, string][] = [
        [0, "0 ns"],
        [980, "980 ns"],
        [9_994, "9.99 µs"],
        [212_000, "212 µs"],
        [999_600, "1.00 ms"],
        [43_621_000, "43.6 ms"],
        [950_000_000, "950 ms"],
        [1_204_000_000, "1.20 s"],
        [83_000_000_000, "83.0 s"],
        [754_000_000_000, "12 min 34 s"],
    ];
    for (const [ns, text] of cases) {
        assert.equal(duration(ns), text);
    }
});

test("ties go to the even digit, as in Rust", () => {
    assert.equal(duration(12_250_000), "12.2 ms");
    assert.equal(duration(12_750_000), "12.8 ms");
    assert.equal(duration(1_125_000), "1.12 ms");
    assert.equal(duration(150_500), "150 µs");
    assert.equal(duration(151_500), "152 µs");
});

test("counts, rates and sizes are readable", () => {
    assert.equal(count(1_234_567), "1,234,567");
    assert.equal(rate(2283.31), "2,283/s");
    assert.equal(rate(3.46), "3.5/s");
    assert.equal(bytes(96), "96 B");
    assert.equal(bytes(12_340_000), "12.3 MB");
    assert.equal(difference(-43_100_000), "−43.1 ms");
    assert.equal(difference(212_000), "+212 µs");
    assert.equal(after(1_234_567_890), "1.234567 s");
});

test("shares never lie at the ends", () => {
    const cases: [number, string][] = [
        [0, "0 %"],
        [0.0001, "<0.1 %"],
        [0.034, "3.4 %"],
        [0.987, "99 %"],
        [0.9987, "99.9 %"],
        [0.9999, "99.9 %"],
        [1, "100 %"],
        [Number.NaN, "–"],
    ];
    for (const [part, text] of cases) {
        assert.equal(share(part), text);
    }
});
