import assert from "node:assert/strict";
import { test } from "node:test";
import { delayed, densityOf, EVERYTHING, scatterOf, whole } from "../../src/density.ts";
import type { Points, Raster } from "../../src/document/picture.ts";
import type { PageDocument } from "../../src/document.ts";
import { merge, paint } from "../../src/grid.ts";
import { select } from "../../src/selection.ts";
import { COLOURS, OWNERS } from "../../src/words.ts";

const RASTER: Raster = {
    start_ns: 1_000,
    column_ns: 1_000,
    columns: 4,
    rows_ns: [1_000, 2_000, 4_000],
    cells: [
        [0, 0, 0, 3, "path"],
        [0, 0, 0, 1, "server"],
        [1, 3, 1, 6, "server"],
    ],
};

function documentOf(raster: Raster): PageDocument {
    const picture = { services: [], shares: [], raster, curves: [], exchanges: [] };
    return { page: 1, made_by: "test", kind: "report", picture };
}

function density() {
    const found = densityOf(documentOf(RASTER));
    assert.ok(found);
    return found;
}

test("cells are counted in any range", () => {
    const all = select(density(), null, EVERYTHING, null);
    assert.equal(all.count, 10);
    assert.equal(all.owners[OWNERS.indexOf("server")], 7);
    const first = select(density(), null, { ...whole(density()), to: 2_000 }, null);
    assert.equal(first.count, 4);
    assert.equal(select(density(), null, EVERYTHING, 1).count, 6);
    const slow = select(density(), null, { ...whole(density()), low: 2_000 }, null);
    assert.equal(slow.count, 6);
});

test("neighbouring ranges count each cell once", () => {
    const range = whole(density());
    const cut = [0, 700, 1_500, 3_500, 4_000];
    const counts = cut.slice(1).map((to, i) => {
        return select(density(), null, { ...range, from: cut[i] ?? 0, to }, null).count;
    });
    assert.equal(
        counts.reduce((a, b) => a + b, 0),
        10,
    );
});

test("a selection is of the same exchanges when the time begins earlier", () => {
    const cells: Raster["cells"] = RASTER.cells.map(([service, column, ...rest]) => [
        service,
        column + 1,
        ...rest,
    ]);
    const later = densityOf(documentOf({ ...RASTER, start_ns: 0, columns: 5, cells }));
    assert.ok(later);
    const range = { ...whole(density()), to: 1_000 };
    assert.equal(select(density(), null, range, null).count, 4);
    assert.equal(select(later, null, range, null).count, 0);
    assert.equal(select(later, null, delayed(range, 1_000), null).count, 4);
});

test("points give exact percentiles", () => {
    const latency = Array.from({ length: 100 }, (_, i) => 1_000 + i * 10);
    const points: Points = {
        start_ns: 1_500,
        after_us: latency.map((_, i) => (i === 0 ? 0 : 1)),
        latency_ns: latency,
        owner: latency.map((_, i) => i % 2),
        owners: ["path", "server"],
        service: latency.map(() => 0),
    };
    const scatter = scatterOf(points, RASTER);
    const found = select(density(), scatter, EVERYTHING, null);
    assert.deepEqual([found.count, found.quantiles()], [100, { p50: 1_490, p99: 1_980 }]);
    assert.equal(found.owners[OWNERS.indexOf("path")], 50);
    const half = select(density(), scatter, { ...EVERYTHING, from: 0, to: 500 + 49_500 }, null);
    assert.equal(half.count, 50);
});

test("the colour is that of the owner with the most exchanges", () => {
    const grid = merge(density(), null, [400, 200]);
    assert.deepEqual([grid.width, grid.height], [4, 2]);
    const pixels = paint(grid);
    // The first row of the document is the last row of pixels.
    assert.deepEqual([...pixels.slice(16, 19)], COLOURS.path);
    assert.deepEqual([...pixels.slice(12, 15)], COLOURS.server);
    assert.equal(pixels[3], 0);
});

test("exchanges are as visible as they are many, and wholly if all are alone", () => {
    const opacities = (counts: number[]) => {
        const cells: Raster["cells"] = counts.map((count, i) => [0, i, 0, count, "server"]);
        const raster = { ...RASTER, columns: counts.length, rows_ns: [1_000, 2_000], cells };
        const found = densityOf(documentOf(raster));
        assert.ok(found);
        return [...paint(merge(found, null, [400, 200]))].filter((_, i) => i % 4 === 3);
    };
    assert.deepEqual(opacities([1, 1, 1]), [255, 255, 255]);
    const [one = 0, ten = 0, hundred = 0] = opacities([1, 10, 100]);
    assert.ok(0 < one && one < ten && ten < hundred && hundred === 255);
});

test("a small picture merges columns and rows, and loses none", () => {
    const grid = merge(density(), null, [8, 4]);
    assert.ok(grid.width < 4 && grid.height === 1);
    assert.equal(
        grid.counts.reduce((a, b) => a + b, 0),
        10,
    );
});

test("without a raster, the seconds of our own load are the columns", () => {
    const clusters = [
        { second: 0, group: 0, latency: [[1e6, 5]] as [number, number][] },
        { second: 2, group: 1, latency: [[8e6, 1]] as [number, number][] },
    ];
    const report = { details: { clusters, latency: [] } } as unknown as PageDocument["report"];
    const found = densityOf({ page: 1, made_by: "test", kind: "report", report });
    assert.ok(found);
    assert.equal(found.columns, 3);
    assert.equal(select(found, null, EVERYTHING, null).count, 6);
    assert.ok(whole(found).low <= 1e6 && whole(found).high > 8e6);
});
