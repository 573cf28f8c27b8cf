import assert from "node:assert/strict";
import { test } from "node:test";
import { linear, logarithmic, logTicks, nines, roundStep, ticks } from "../../src/scale.ts";

test("a scale and its inverse agree", () => {
    for (const scale of [linear(5, 25, 100, 300), logarithmic(1e3, 1e9, 300, 0)]) {
        for (const at of [100, 150, 299]) {
            assert.ok(Math.abs(scale.at(scale.value(at)) - at) < 1e-6);
        }
    }
});

test("a scale of one value does not divide by zero", () => {
    assert.equal(linear(5, 5, 0, 100).at(5), 0);
    assert.ok(Number.isFinite(logarithmic(7, 7, 0, 100).at(7)));
});

test("ticks are round and within", () => {
    assert.deepEqual(ticks(0, 10, 5), [0, 2, 4, 6, 8, 10]);
    assert.deepEqual(ticks(-3, 3, 3), [-2, 0, 2]);
    assert.deepEqual(ticks(4, 4, 5), [4]);
    assert.equal(roundStep(0.3), 0.5);
    assert.equal(roundStep(50), 50);
});

test("logarithmic ticks get fewer where there is no room", () => {
    assert.deepEqual(logTicks(1e3, 1e5, 10), [1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5]);
    assert.deepEqual(logTicks(1e3, 1e5, 3), [1e3, 1e4, 1e5]);
    assert.ok(logTicks(1, 1e12, 4).length <= 5);
});

test("each further nine has the same width", () => {
    const widths = [0.9, 0.99, 0.999].map((q) => Math.round(nines(q) * 1e6) / 1e6);
    assert.deepEqual(widths, [1, 2, 3]);
});
