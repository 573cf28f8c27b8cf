import assert from "node:assert/strict";
import { test } from "node:test";
import { queryOf } from "../../src/served.ts";

test("the bounds of a query are the integers that a selection contains", () => {
    const range = { from: -0.25, to: 10.5, low: 2, high: 3.01 };
    assert.equal(queryOf(range, null, ""), "from_ns=0&to_ns=11&low_ns=2&high_ns=4");
    const narrow = { from: 5, to: 5, low: 7.5, high: 7.6 };
    const query = "from_ns=5&to_ns=6&low_ns=8&high_ns=9&service=0&owner=path";
    assert.equal(queryOf(narrow, 0, "path"), query);
});
