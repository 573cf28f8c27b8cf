// Tests of the page of a running watch: `npm run test:followed -- LAGTRACE`, as root.

import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { createServer, get } from "node:http";
import type { AddressInfo } from "node:net";
import { createInterface } from "node:readline";
import { after, describe, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import type { Page } from "playwright-core";
import { axe, RULES } from "./browser/axe.ts";
import { launch, openUrl } from "./browser/open.ts";

const [program] = process.argv.slice(2);
if (!program) {
    console.error("usage: npm run test:followed -- LAGTRACE");
    process.exit(2);
}

// A server and a load for it, both in this process.
const server = createServer((_, answer) => {
    setTimeout(() => answer.end("hello"), 2);
});
await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
const { port } = server.address() as AddressInfo;
const load = setInterval(() => {
    const asked = get({ port, host: "127.0.0.1", path: "/page" });
    // The last requests are cut.
    asked.on("response", (answer) => answer.resume()).on("error", () => undefined);
}, 20);
const browser = await launch();
const watches: ChildProcess[] = [];
after(async () => {
    await browser.close();
    for (const watch of watches) {
        watch.kill("SIGKILL");
    }
    clearInterval(load);
    server.closeAllConnections();
    server.close();
});

interface Watch {
    process: ChildProcess;
    url: string;
    ended: Promise<unknown>;
}

async function watch(): Promise<Watch> {
    const options = ["watch", "-q", "-p", String(port), "--serve"];
    const child = spawn(program as string, options, { stdio: ["ignore", "ignore", "pipe"] });
    watches.push(child);
    const ended = new Promise((done) => child.once("exit", done));
    for await (const line of createInterface({ input: child.stderr })) {
        const url = /http:\S+/.exec(line)?.[0];
        if (url) {
            return { process: child, url, ended };
        }
    }
    throw new Error("the watch has ended");
}

/** Rows that fill the list several times, also the half of them that is selected. */
const LEAST_ROWS = 200;

const version = (page: Page) => page.evaluate(() => Number(document.body.dataset.live));

/** Waits until the page shows a later version than `than`. */
async function later(page: Page, than: number): Promise<number> {
    await page.waitForFunction((than) => Number(document.body.dataset.live) > than, than);
    // Its rows are in the page after the next layout.
    await page.waitForTimeout(200);
    return version(page);
}

async function says(page: Page, words: string) {
    await page.locator("#live", { hasText: words }).waitFor();
}

async function opened(url: string) {
    const it = await openUrl(browser, url);
    // The machine may be busy with other tests.
    it.page.setDefaultTimeout(60_000);
    return it;
}

/** What a reader has chosen, opened and looks at. */
function place(page: Page) {
    return page.evaluate(() => {
        const all = (selector: string) => [...document.querySelectorAll<HTMLElement>(selector)];
        const list = document.querySelector(".waterfall")?.getBoundingClientRect();
        const inSight = all(".waterfall .row").find(
            (row) => row.getBoundingClientRect().bottom > (list?.top ?? 0) + 1,
        );
        return {
            selected: document.querySelector(".selected strong")?.textContent?.split(", ")[1],
            opened: document.querySelector("#exchange-detail")?.textContent,
            focused: document.activeElement?.id,
            // A later version may have more of them, which are closed.
            tables: all("details[open]").map((it) => it.closest("[id]")?.id),
            theme: document.documentElement.dataset.theme,
            order: all("#waterfall select").map((it) => (it as HTMLSelectElement).value),
            row: inSight?.querySelector<HTMLElement>(".figure")?.dataset.ns,
        };
    });
}

/** Scrolls the list of exchanges as far as a list that is not scrolled cannot be by chance. */
async function scroll(page: Page) {
    const top = await page.locator(".waterfall").evaluate((list) => {
        list.scrollTo(0, 340);
        return list.scrollTop;
    });
    assert.equal(top, 340);
    await page.waitForTimeout(200);
}

/** Number of rows that the list has, in sight or not. */
function rows(page: Page) {
    return page.evaluate(() => Number(document.querySelector(".waterfall .row")?.ariaSetSize));
}

/** Each has a watch of its own. */
describe("the page of a running watch", { concurrency: 2 }, () => {
    test("follows, can be paused, and says that the watch has ended", follows);
    test("says that its server is gone", isLeft);
});

async function follows() {
    const watched = await watch();
    const { page, complaints } = await opened(watched.url);
    // The first version has few exchanges, so that nothing would scroll.
    await page.waitForFunction(
        (least) => Number(document.querySelector(".waterfall .row")?.ariaSetSize) >= least,
        LEAST_ROWS,
    );
    await says(page, "Live. Figures of");

    await page.locator("#top button", { hasText: "dark" }).click();
    await page.locator(".raster").focus();
    await page.keyboard.press("ArrowRight");
    await page.keyboard.press("Shift+ArrowRight");
    await page.locator("#tables details summary").click();
    await page.locator("#waterfall .controls select").last().selectOption("cost");
    await page.locator(".waterfall").focus();
    await page.keyboard.press("Enter");
    await page.waitForSelector("#exchange-detail");
    await scroll(page);
    const [before, at] = [await place(page), await version(page)];
    assert.ok(before.selected && before.opened && before.row && before.tables.includes("tables"));
    await later(page, at);
    assert.deepEqual(await place(page), before);
    assert.equal(await page.locator("#top").count(), 1);

    // Without the selection, later versions have other rows above.
    await page.locator(".raster").focus();
    await page.keyboard.press("Escape");
    await page.locator("#waterfall .controls select").last().selectOption("latency");
    await scroll(page);
    const [{ row }, few, seen] = [await place(page), await rows(page), await version(page)];
    const shown = await later(page, seen);
    assert.ok((await rows(page)) > few);
    assert.equal((await place(page)).row, row);

    await page.getByRole("button", { name: "Pause" }).click();
    await says(page, "Paused.");
    const newest = () => page.evaluate(async () => (await (await fetch("version")).json()).version);
    while ((await newest()) === shown) {
        await sleep(200);
    }
    // The page asks meanwhile.
    await sleep(3500);
    assert.equal(await version(page), shown);
    await page.getByRole("button", { name: "Follow" }).click();
    await later(page, shown);
    for (const colorScheme of ["light", "dark"] as const) {
        await page.evaluate((theme) => {
            document.documentElement.dataset.theme = theme;
        }, colorScheme);
        assert.deepEqual(await axe(page, RULES[colorScheme]), []);
    }
    await page.setViewportSize({ width: 360, height: 800 });
    assert.ok((await page.evaluate(() => document.documentElement.scrollWidth)) <= 360);

    // A paused page keeps the last figures, even though the server ends.
    await page.getByRole("button", { name: "Pause" }).click();
    watched.process.kill("SIGINT");
    await says(page, "The watch has ended. Figures of");
    await watched.ended;
    await page.getByRole("button", { name: "Follow" }).click();
    await says(page, "The watch has ended. These are its last figures.");
    assert.equal(await page.locator("#live button").count(), 0);
    assert.deepEqual(
        complaints.filter((it) => it !== `request: ${watched.url}version`),
        [],
    );
}

async function isLeft() {
    const watched = await watch();
    const { page } = await opened(watched.url);
    await says(page, "Live.");
    watched.process.kill("SIGKILL");
    await says(page, "cannot be reached. Figures of");
    assert.equal(await page.locator("#verdict").isVisible(), true);
}
