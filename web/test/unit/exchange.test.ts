import assert from "node:assert/strict";
import { test } from "node:test";
import { columnsOf, latencyAt } from "../../src/curve.ts";
import type { Ladder, PicturedExchange } from "../../src/document/picture.ts";
import {
    chosen,
    displayFilter,
    type Filter,
    isSame,
    longestWait,
    mainOwner,
} from "../../src/exchange.ts";
import { between, onKey, type Plane, toBox } from "../../src/parts/brush.ts";
import { linear } from "../../src/scale.ts";
import { guilty, layoutOf } from "../../src/views/ladder/layout.ts";

function exchange(changes: Partial<PicturedExchange>): PicturedExchange {
    const wait = { error_ns: null, released_by_packet: null };
    return {
        service: 0,
        why: "sample",
        capture: "a.pcap",
        ordinal: 0,
        status: 200,
        cost_ns: 10,
        setup_ns: null,
        response_bytes: 1,
        client: "10.0.0.1:40212",
        server: "10.0.0.2:80",
        request: "GET /",
        outcome: "200",
        start_ns: 0,
        latency_ns: 100,
        first_packet: 9,
        last_packet: 5,
        waits: [
            { ...wait, kind: "round-trip", owner: "path", duration_ns: 40 },
            { ...wait, kind: "server-think", owner: "server", duration_ns: 35 },
            { ...wait, kind: "server-pause", owner: "server", duration_ns: 25 },
        ],
        recoveries: [],
        ...changes,
    };
}

const NO_FILTER: Filter = { owner: "", cause: "", text: "", range: null };

test("the owner of most of the time is not that of the longest wait", () => {
    assert.equal(mainOwner(exchange({})), "server");
    assert.equal(longestWait(exchange({})), "round-trip");
});

test("an exchange is found again in a later document", () => {
    const one = exchange({ start_ns: 5 });
    assert.ok(isSame(one, exchange({ start_ns: 5, why: "slowest", shows: ["packet-loss"] })));
    for (const other of [{}, { start_ns: 5, client: "10.0.0.1:1" }, { start_ns: 5, request: "" }]) {
        assert.ok(!isSame(one, exchange(other)));
    }
    assert.ok(!isSame(one, null));
});

test("the filter is that of the core", () => {
    assert.equal(
        displayFilter(exchange({})),
        "ip.addr == 10.0.0.1 && tcp.port == 40212 && tcp.port == 80 && frame.number in {5..9}",
    );
    const six = exchange({ client: "[::1]:40212", server: "[::1]:80" });
    assert.match(displayFilter(six) ?? "", /^ipv6\.addr == ::1 && /);
    assert.equal(displayFilter(exchange({ first_packet: null })), null);
    assert.equal(displayFilter(exchange({ client: "client-1:40212" })), null);
});

test("exchanges are filtered and ordered", () => {
    const all = [
        exchange({ start_ns: 1, latency_ns: 5, request: "GET /a" }),
        exchange({ start_ns: 2, latency_ns: 9, request: "GET /b", shows: ["packet-loss"] }),
    ];
    const starts = (filter: Partial<Filter>, order: "latency" | "start" | "cost") =>
        chosen(all, { ...NO_FILTER, ...filter }, order, 0).map((one) => one.start_ns);
    assert.deepEqual(starts({}, "latency"), [2, 1]);
    assert.deepEqual(starts({}, "start"), [1, 2]);
    assert.deepEqual(starts({ text: "get /A" }, "start"), [1]);
    assert.deepEqual(starts({ cause: "packet-loss" }, "start"), [2]);
    assert.deepEqual(starts({ owner: "client" }, "start"), []);
    assert.deepEqual(starts({ range: { from: 0, to: 2, low: 0, high: 9 } }, "start"), [1]);
});

const PLANE: Plane = {
    x: linear(0, 100, 0, 400),
    y: linear(0, 100, 200, 0),
    left: 0,
    right: 400,
    top: 0,
    bottom: 200,
};

test("a drag selects, a click does not", () => {
    const range = between(PLANE, [300, 150], [100, -50]);
    assert.deepEqual(range, { from: 25, to: 75, low: 25, high: 100 });
    assert.equal(between(PLANE, [10, 10], [12, 11]), null);
});

test("the keyboard moves within the plane", () => {
    let range = onKey(PLANE, null, "ArrowRight", false) ?? null;
    assert.ok(range);
    for (let i = 0; i < 100; i += 1) {
        range = onKey(PLANE, range, "ArrowRight", false) ?? null;
    }
    assert.ok(range);
    assert.equal(toBox(PLANE, range).x1, 400);
    assert.equal(Math.round(range.to - range.from), 50);
    assert.equal(onKey(PLANE, range, "Escape", false), null);
    assert.equal(onKey(PLANE, null, "a", false), undefined);
});

test("curves do not claim more than their requests show", () => {
    const curve = {
        kind: "observed",
        name: "observed",
        points: [
            [0.5, 10],
            [0.9, 20],
            [1, 30],
        ] as [number, number][],
    };
    assert.equal(latencyAt(curve, 0.5), 10);
    assert.equal(latencyAt(curve, 0.75), 20);
    assert.equal(latencyAt(curve, 0.99), null);
    const [xs, ys] = columnsOf([curve]);
    assert.equal(xs.length, 3);
    assert.deepEqual(ys, [10, 20, 30]);
});

function ladder(times: number[], leftOut = 0): Ladder {
    const packet = {
        from_client: true,
        flags: ".",
        seq: 0,
        bytes: 0,
        window: 0,
        is_retransmission: false,
    };
    return {
        client: "a",
        server: "b",
        start_ns: 0,
        latency_ns: 1_000,
        packets: times.map((at_ns, number) => ({
            ...packet,
            number,
            at_ns,
            left_out: number === 2 ? leftOut : 0,
        })),
        left_out: leftOut,
        gaps: [
            { at_ns: 100, duration_ns: 800, kind: "recovery", owner: "path", cause: "packet-loss" },
        ],
        display_filter: "",
    };
}

test("silence is compressed, and said", () => {
    const layout = layoutOf(ladder([0, 1, 900, 1_000]));
    assert.deepEqual(
        layout.silences.map((silence) => silence.ns),
        [899, 100],
    );
    const ys = layout.packets.map(({ y }) => y);
    assert.ok(ys.every((y, i) => i === 0 || y > (ys[i - 1] ?? 0)));
    assert.ok(layout.at(100) < layout.at(900) && layout.height < 400);
    assert.equal(guilty(ladder([0])).length, 1);
});

test("packets that were left out are shown as a cut", () => {
    assert.equal(layoutOf(ladder([0, 1, 2, 3], 7)).cuts[0]?.packets, 7);
    assert.deepEqual(layoutOf(ladder([0, 1, 2, 3])).cuts, []);
    assert.equal(layoutOf(ladder([])).packets.length, 0);
});
