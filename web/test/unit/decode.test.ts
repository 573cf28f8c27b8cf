import assert from "node:assert/strict";
import { test } from "node:test";
import { gzipSync } from "node:zlib";
import { checked, decode, Unreadable } from "../../src/decode.ts";

const DOCUMENT = { page: 1, made_by: "test", kind: "report", report: { findings: [] } };

function island(value: unknown): string {
    return gzipSync(JSON.stringify(value)).toString("base64");
}

test("a document is decoded", async () => {
    assert.deepEqual(await decode(island(DOCUMENT), "gzip;base64"), DOCUMENT);
});

test("a damaged document gives a clear message", async () => {
    const whole = island({ ...DOCUMENT, filler: Array.from({ length: 999 }, (_, i) => i * i) });
    const cases: [string, RegExp][] = [
        [whole.slice(0, 400), /truncated/],
        [whole.slice(0, 401), /base64/],
        ["", /truncated/],
        [Buffer.from("not gzip").toString("base64"), /truncated/],
        [gzipSync('{"page": 1,').toString("base64"), /not JSON/],
        [island([1]), /not a page document/],
        [island({ ...DOCUMENT, page: 7 }), /version 7/],
        [island({ ...DOCUMENT, kind: "score" }), /no score/],
    ];
    for (const [text, message] of cases) {
        await assert.rejects(decode(text, "gzip;base64"), (error: Error) => {
            assert.ok(error instanceof Unreadable);
            assert.match(error.message, message);
            return true;
        });
    }
    await assert.rejects(decode(whole, "br"), /unknown encoding/);
});

test("an unknown kind is refused", () => {
    assert.throws(() => checked({ page: 1, kind: "poem" }), Unreadable);
    assert.throws(() => checked(null), Unreadable);
});
