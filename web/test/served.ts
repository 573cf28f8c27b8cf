// Tests of a page that `lagtrace view --serve` serves: `npm run test:served -- URL RECORDS`. The
// records are those of `analyze --format ndjson` on the same capture, which has more exchanges than
// the page.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, test } from "node:test";
import type { Page } from "playwright-core";
import type { PicturedExchange } from "../src/document/picture.ts";
import type { Listed } from "../src/served.ts";
import { axe, RULES } from "./browser/axe.ts";
import { checkList, unreached } from "./browser/keys.ts";
import { documentOf } from "./browser/numbers.ts";
import { launch, openTables, openUrl } from "./browser/open.ts";

const [url, records] = process.argv.slice(2);
if (!url || !records) {
    console.error("usage: npm run test:served -- URL RECORDS");
    process.exit(2);
}

const browser = await launch();
after(() => browser.close());

/** Returns what a page asked for after it was opened, and everything that it must not do. */
function asked(complaints: string[]): [string[], string[]] {
    const mark = `request: ${url}`;
    const [own, others] = [true, false].map((is) =>
        complaints.filter((it) => it.startsWith(mark) === is),
    ) as [string[], string[]];
    return [own.map((it) => it.slice(mark.length)), others];
}

async function openPackets(page: Page) {
    await page.getByRole("button", { name: "Show its packets" }).click();
    await page.waitForSelector("#exchange-ladder svg");
    await page.waitForSelector("#exchange-connection canvas");
}

test("an exchange is opened down to its packets", async () => {
    const { page, complaints } = await openUrl(browser, url);
    await checkList(page);
    await openPackets(page);
    const packets = await page.locator("#exchange-ladder svg text").count();
    assert.ok(packets > 3, `${packets} texts in the ladder`);
    // Nothing was asked but the page and the packets.
    const [own, others] = asked(complaints);
    assert.deepEqual(others, []);
    assert.equal(own.length, 1);
    assert.match(own[0] ?? "", /^packets\/\d+$/);
});

/** Selects some of the faster exchanges, lists them by the keyboard, and returns the list. */
async function list(page: Page): Promise<Listed> {
    const raster = page.locator(".raster");
    await raster.scrollIntoViewIfNeeded();
    const box = await raster.boundingBox();
    assert.ok(box);
    const at = (x: number, y: number) => [box.x + box.width * x, box.y + box.height * y] as const;
    await page.mouse.move(...at(0.3, 0.5));
    await page.mouse.down();
    await page.mouse.move(...at(0.7, 0.8));
    await page.mouse.up();
    const answer = page.waitForResponse((response) => response.url().includes("/exchanges?"));
    await page.getByRole("button", { name: "List these exchanges" }).focus();
    await page.keyboard.press("Enter");
    const listed = (await (await answer).json()) as Listed;
    await page.waitForFunction(() => document.activeElement?.className === "waterfall");
    return listed;
}

/** The line of `analyze` about an exchange. */
function recordOf(one: PicturedExchange): PicturedExchange {
    const lines = readFileSync(records as string, "utf8")
        .trim()
        .split("\n");
    const all = lines.map((line) => JSON.parse(line) as PicturedExchange);
    const found = all.find((it) => it.first_packet === one.first_packet);
    assert.ok(found, `packet ${one.first_packet}`);
    return found;
}

test("the exchanges of a selection are listed, and one that the page only counts is opened", async () => {
    const { page, complaints } = await openUrl(browser, url);
    const status = page.locator("#waterfall > p[aria-live]");
    const before = await status.textContent();
    const document = documentOf(await page.content());
    const shown = new Set(document.picture?.exchanges.map((one) => one.first_packet));
    const listed = await list(page);
    assert.ok(listed.total > 200, `${listed.total} in the selection`);
    assert.equal(listed.exchanges.length, 200);
    assert.equal(await status.textContent(), "200 of 200 exchanges.");
    const at = listed.exchanges.findIndex((one) => !shown.has(one.first_packet));
    assert.ok(at >= 0, "one that is not on the page");
    for (let i = 0; i < at; i += 1) {
        await page.keyboard.press("ArrowDown");
    }
    await page.keyboard.press("Enter");
    await openPackets(page);
    const one = listed.exchanges[at] as PicturedExchange;
    const record = recordOf(one);
    assert.deepEqual([one.latency_ns, one.waits], [record.latency_ns, record.waits]);
    const told = await page.locator("#exchange-detail [data-ns]").getAttribute("data-ns");
    assert.equal(told, String(record.latency_ns));
    await openTables(page);
    const numbers = await page.locator("#exchange-ladder tbody th").allTextContents();
    const shownNumbers = numbers.map((text) => Number(text.replaceAll(",", "")));
    assert.ok(shownNumbers.includes(record.first_packet ?? 0), numbers.join());
    assert.ok(shownNumbers.includes(record.last_packet ?? 0), numbers.join());
    assert.deepEqual(await unreached(page), []);
    assert.deepEqual(await axe(page, RULES.light), []);
    // Without the selection, the page is as it was.
    await page.getByRole("button", { name: "Remove the selection" }).click();
    await page.locator(".detail").waitFor({ state: "detached" });
    assert.equal(await status.textContent(), before);
    const [own, others] = asked(complaints);
    assert.deepEqual(others, []);
    assert.match(own.join(" "), /^exchanges\?\S+ packets\?\S+$/);
});

test("a selection that cannot be read says so", async () => {
    const { page } = await openUrl(browser, url);
    await page.route("**/exchanges?*", (route) => route.abort());
    await page.locator(".raster").focus();
    await page.keyboard.press("ArrowUp");
    await page.getByRole("button", { name: "List these exchanges" }).click();
    await page.getByText("could not be read").waitFor();
    // Another selection can be listed again.
    await page.locator(".raster").press("ArrowUp");
    await page.getByText("could not be read").waitFor({ state: "detached" });
});
