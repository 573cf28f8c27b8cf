import assert from "node:assert/strict";
import { test } from "node:test";
import { visible } from "../../src/visible.ts";

// The same cases as in crates/lagtrace/src/render/escape.rs.
test("what would deceive a reader is spelled out", () => {
    const cases: [string, string][] = [
        ["GET /\u001b]0;owned\u0007", "GET /\\u{1b}]0;owned\\u{7}"],
        ["a\r\nb\tc", "a\\r\\nb\\tc"],
        ["\u009b2J", "\\u{9b}2J"],
        ["x\u202egnp.exe", "x\\u{202e}gnp.exe"],
        ["µ – café 日本", "µ – café 日本"],
        ["\u{e0041}", "\\u{e0041}"],
        ["<img src=x>", "<img src=x>"],
    ];
    for (const [hostile, shown] of cases) {
        assert.equal(visible(hostile), shown);
    }
});

test("long strings are cut between characters", () => {
    assert.equal([...visible("é".repeat(90_000))].length, 2_001);
    assert.equal([...visible("😀".repeat(90_000))].length, 2_001);
    assert.equal(visible("a".repeat(2_000)).length, 2_000);
});
