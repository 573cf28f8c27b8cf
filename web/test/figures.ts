// Figures of the page with many exchanges: `npm run figures`. It prints them and judges nothing: the
// time depends on the machine and on what else it does.

import { mkdtempSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import type { Browser, CDPSession, Page } from "playwright-core";
import type { Cell, PicturedExchange, Points } from "../src/document/picture.ts";
import type { Owner, PageDocument } from "../src/document.ts";
import { count } from "../src/quantity.ts";
import { launch } from "./browser/open.ts";
import { shell } from "./shell.ts";

const OWNERS: Owner[] = ["client", "server", "path"];
const COLUMNS = 1_024;
const ROWS = 128;
/** Times that the selection is moved. */
const MOVES = 40;

/** A generator of equal numbers in each run (Marsaglia, "Xorshift RNGs", 2003). */
function generator(): () => number {
    let state = 0x9e3779b9;
    return () => {
        state ^= state << 13;
        state ^= state >>> 17;
        state ^= state << 5;
        return (state >>> 0) / 2 ** 32;
    };
}

/** A document of so many exchanges; with each of them if `hasPoints`. */
function documentOf(exchanges: number, hasPoints: boolean): PageDocument {
    const random = generator();
    const cells = new Map<string, Cell>();
    const points: Points = {
        start_ns: 0,
        after_us: [],
        latency_ns: [],
        owner: [],
        owners: OWNERS,
        service: [],
    };
    for (let i = 0; i < exchanges; i += 1) {
        const column = Math.floor((i * COLUMNS) / exchanges);
        const row = Math.min(Math.floor(40 - 12 * Math.log(random() + 1e-9)), ROWS - 1);
        const owner = Math.floor(random() * OWNERS.length);
        const name = OWNERS[owner] ?? "unknown";
        const key = `${column} ${row} ${name}`;
        const cell = cells.get(key) ?? [0, column, row, 0, name];
        cell[3] += 1;
        cells.set(key, cell);
        if (hasPoints) {
            points.after_us.push(i === 0 ? 0 : 500);
            points.latency_ns.push(Math.floor(1e4 * 2 ** (row / 8)));
            points.owner.push(owner);
            points.service.push(0);
        }
    }
    const raster = {
        start_ns: 0,
        column_ns: 2 ** 27,
        columns: COLUMNS,
        rows_ns: Array.from({ length: ROWS + 1 }, (_, row) => Math.floor(1e4 * 2 ** (row / 8))),
        cells: [...cells.values()].slice(0, 65_536),
    };
    const picture = {
        services: [{ server: "10.0.0.2:80", count: exchanges }],
        shares: [],
        raster,
        points: hasPoints ? points : null,
        curves: [],
        exchanges: Array.from({ length: 2_500 }, (_, i) => exchange(i, random)),
    };
    return { page: 1, made_by: "figures", kind: "report", picture, report: report() };
}

/** A pictured exchange, as the core keeps about 2,500 of them. */
function exchange(i: number, random: () => number): PicturedExchange {
    const duration = () => Math.floor(1e6 * random());
    const waits = OWNERS.map((owner) => ({
        kind: "unknown" as const,
        owner,
        duration_ns: duration(),
        error_ns: null,
        released_by_packet: null,
    }));
    const latency_ns = waits.reduce((sum, wait) => sum + wait.duration_ns, 0);
    return {
        service: 0,
        why: i < 500 ? "slowest" : "sample",
        cost_ns: latency_ns,
        client: `10.0.0.1:${10_000 + i}`,
        server: "10.0.0.2:80",
        request: `GET /item/${i}`,
        outcome: "200",
        start_ns: i * 1e6,
        latency_ns,
        first_packet: i,
        last_packet: i + 9,
        waits,
        recoveries: [],
    };
}

function report() {
    const figures = { count: 0, min: 0, mean: 0, p50: 0, p75: 0, p90: 0, p99: 0, p999: 0, max: 0 };
    return {
        schema: 2,
        command: "analyze",
        subject: "figures",
        started: "",
        findings: [],
        exchanges: { count: 0, latency_ns: figures, waits: [] },
    };
}

interface Measured {
    firstPaintMs: number;
    usableMs: number;
    longestTaskMs: number;
    redrawMs: number;
    longestRedrawMs: number;
    heapMb: number;
}

async function measure(browser: Browser, file: string): Promise<Measured> {
    const page = await browser.newPage({ viewport: { width: 1280, height: 900 } });
    await page.addInitScript("globalThis.__name = (it) => it");
    await page.addInitScript(() => {
        const tasks: number[] = [];
        Reflect.set(window, "longTasks", tasks);
        new PerformanceObserver((list) => {
            tasks.push(...list.getEntries().map((entry) => entry.duration));
        }).observe({ type: "longtask", buffered: true });
    });
    const session = await page.context().newCDPSession(page);
    await page.goto(pathToFileURL(file).href, { waitUntil: "commit" });
    await page.waitForSelector(".raster svg", { state: "attached" });
    await page.waitForSelector("html[data-ready]", { state: "attached" });
    const usableMs = await page.evaluate(() => performance.now());
    const firstPaintMs = await page.evaluate(
        () => performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? 0,
    );
    const redraws = await brush(page);
    const longestTaskMs = await page.evaluate(() =>
        Math.max(0, ...(Reflect.get(window, "longTasks") as number[])),
    );
    const heapMb = await heap(session);
    await page.close();
    const redrawMs = redraws.reduce((a, b) => a + b, 0) / redraws.length;
    return {
        firstPaintMs,
        usableMs,
        longestTaskMs,
        redrawMs,
        longestRedrawMs: Math.max(...redraws),
        heapMb,
    };
}

/** Drags a selection; returns the time from each movement until the frame that shows it is made. */
async function brush(page: Page): Promise<number[]> {
    return page.evaluate(async (moves) => {
        const svg = document.querySelector(".raster svg");
        const box = svg?.getBoundingClientRect();
        if (!svg || !box) {
            return [];
        }
        const event = (type: string, x: number, y: number) =>
            svg.dispatchEvent(
                new PointerEvent(type, {
                    pointerId: 1,
                    clientX: box.left + x,
                    clientY: box.top + y,
                    bubbles: true,
                }),
            );
        Reflect.set(svg, "setPointerCapture", () => {});
        event("pointerdown", 100, 20);
        const times = [];
        for (let i = 0; i < moves; i += 1) {
            const begin = performance.now();
            event("pointermove", 140 + i * 20, 60 + i * 5);
            // The second frame begins when the first, with the movement in it, is done.
            await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
            times.push(performance.now() - begin);
        }
        event("pointerup", 100 + moves * 20, 200);
        return times;
    }, MOVES);
}

async function heap(session: CDPSession): Promise<number> {
    await session.send("HeapProfiler.collectGarbage");
    const { usedSize, backingStorageSize } = await session.send("Runtime.getHeapUsage");
    return (usedSize + backingStorageSize) / 1e6;
}

const folder = mkdtempSync(join(tmpdir(), "lagtrace-figures-"));
const browser = await launch();
for (const [name, exchanges, hasPoints] of [
    ["raster only", 1_000_000, false],
    ["with points", 200_000, true],
] as const) {
    const file = join(folder, "page.html");
    writeFileSync(file, shell(documentOf(exchanges, hasPoints)));
    const size = statSync(file).size / 1e3;
    const measured = await measure(browser, file);
    console.log(`${count(exchanges)} exchanges, ${name}: ${size.toFixed(0)} kB`);
    for (const [figure, value] of Object.entries(measured)) {
        console.log(`    ${figure}: ${value.toFixed(1)}`);
    }
}
await browser.close();
rmSync(folder, { recursive: true });
