// Tests of page files in a real browser: `npm run test:browser -- DIRECTORY`. The directory has pages
// that the command wrote, or that test/shell.ts made.

import assert from "node:assert/strict";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { availableParallelism, tmpdir } from "node:os";
import { basename, join } from "node:path";
import { after, before, describe, test } from "node:test";
import type { Browser, Page } from "playwright-core";
import { axe, RULES, shortenTables } from "./browser/axe.ts";
import { drawnOwners } from "./browser/colours.ts";
import { checkBrush, checkHelp, checkList, unreached } from "./browser/keys.ts";
import { documentOf, expectedNumbers, wrongNumbers } from "./browser/numbers.ts";
import { launch, open, openTables } from "./browser/open.ts";
import { settled } from "./browser/settled.ts";
import {
    checkFirstView,
    checkGaps,
    checkNarrow,
    checkScale,
    checkUnfolded,
    checkWords,
    SCREEN,
} from "./browser/view.ts";
import { shell } from "./shell.ts";

/** Widths from a telephone to a wide screen. */
const WIDTHS = [360, 768, 1280, 2560];
/** Characters that hide or reorder text. */
const DECEIVING = /[^\P{Cc}\n\r\t]|[\u200b-\u200f\u2028-\u202e\u2060-\u206f]/u;

const folder = process.argv[2];
if (!folder) {
    console.error("usage: npm run test:browser -- DIRECTORY");
    process.exit(2);
}
const files = readdirSync(folder)
    .filter((name) => name.endsWith(".html"))
    .sort()
    .map((name) => join(folder, name));
const scratch = mkdtempSync(join(tmpdir(), "lagtrace-page-"));
/** The kinds of documents of which a page was cut: all pages of a kind have the same script. */
const kinds = new Set<string>();
let browser: Browser;

before(async () => {
    browser = await launch();
});
after(async () => {
    await browser.close();
    rmSync(scratch, { recursive: true });
});

test("there are pages to test", () => {
    assert.notEqual(files.length, 0, `no .html file in ${folder}`);
});

/** Pages are independent: as many are tested at a time as there are processors. */
describe("pages", { concurrency: availableParallelism() }, () => {
    files.forEach(testPage);
});

function testPage(file: string) {
    const html = readFileSync(file, "utf8");
    const name = basename(file);

    test(name, async (t) => {
        // One page for all that only looks at it: opening takes longest.
        const { page, complaints } = await open(browser, file, { viewport: SCREEN });
        await t.test("its first view is enough to act", () =>
            checkFirstView(page, documentOf(html)),
        );
        await t.test("nothing is cut off on a telephone", () => checkNarrow(page));
        await openTables(page);
        // The hostile capture has such characters of its own.
        if (name !== "hostile.html") {
            await t.test("is written for people", () => checkWords(page));
        }
        await t.test("gaps of the capture are marked", () => checkGaps(page, documentOf(html)));
        await t.test("bars of requests have one scale", () => checkScale(page));
        await t.test("holds no foreign markup", () => checkMarkup(page));
        await t.test("its views have their places", () => checkLayout(page));
        await t.test("its numbers are those of its document", () => checkNumbers(page, html));
        await t.test("the picture has the colours of its owners", () => checkColours(page, html));
        await t.test("fits every width", () => checkWidths(page));
        await shortenTables(page);
        for (const colorScheme of ["light", "dark"] as const) {
            await page.emulateMedia({ colorScheme });
            await settled(page);
            await t.test(`axe finds nothing, ${colorScheme}`, async () => {
                assert.deepEqual(await axe(page, RULES[colorScheme]), []);
            });
        }
        await t.test("prints", () => checkPrint(page));
        await t.test("was quiet", () => assert.deepEqual(complaints, []));
        await t.test("its verdict needs no JavaScript", () => checkWithoutScript(page, file));
        await page.context().close();
    });

    test(`${name} by keyboard`, async () => {
        const { page, complaints } = await open(browser, file, { reducedMotion: "reduce" });
        assert.deepEqual(await unreached(page), []);
        await checkHelp(page);
        await checkBrush(page);
        await checkList(page);
        assert.deepEqual(complaints, []);
        await page.context().close();
    });

    const { kind } = documentOf(html);
    if (kinds.has(kind)) {
        return;
    }
    kinds.add(kind);
    test(`${name} with its data cut`, async () => {
        const cut = join(scratch, name);
        writeFileSync(cut, html.replace(/(<script id="data"[^>]*>)([^<]*)/, half));
        const { page, complaints } = await open(browser, cut);
        assert.match(await page.locator(".failure").innerText(), /damaged or truncated/);
        assert.equal(await page.locator("#verdict").isVisible(), true);
        assert.deepEqual(complaints, []);
        await page.context().close();
    });
}

test("a malformed part leaves the other views standing", async () => {
    const file = join(scratch, "malformed.html");
    const raster = { start_ns: 0, column_ns: 1, columns: 1, rows_ns: [1, 2], cells: [] };
    const picture = { services: [], shares: [], raster, curves: [], exchanges: [{}] };
    const parts = { report: { findings: [], exchanges: {}, probes: [], joined: {} }, picture };
    writeFileSync(file, shell(JSON.parse(JSON.stringify({ page: 1, kind: "report", ...parts }))));
    const { page } = await open(browser, file);
    assert.match(await page.locator(".failure").first().innerText(), /cannot be shown/);
    assert.equal(await page.locator("#verdict").isVisible(), true);
    await page.context().close();
});

/** Each view has its place below the one before it, and each picture has a size. */
async function checkLayout(page: Page) {
    const boxes = await page.locator("main .view").evaluateAll((views) =>
        views.map((view) => {
            const { top, bottom } = view.getBoundingClientRect();
            const pictures = [...view.querySelectorAll("svg, canvas")];
            const sizes = pictures.map((picture) => picture.getBoundingClientRect());
            const hasEmpty = sizes.some(({ width, height }) => width < 1 || height < 1);
            return { id: view.id, top, bottom, hasEmpty };
        }),
    );
    boxes.forEach((box, i) => {
        assert.ok(!box.hasEmpty, `${box.id} has an empty picture`);
        assert.ok(box.bottom - box.top > 60, `${box.id} is empty`);
        assert.ok(box.top >= (boxes[i - 1]?.bottom ?? 0), `${box.id} overlaps the view above`);
    });
}

async function checkMarkup(page: Page) {
    const foreign = "img, iframe, object, embed, link, base, form[action]";
    assert.equal(await page.locator(foreign).count(), 0);
    assert.equal(await page.locator("script").count(), 2);
    assert.equal(await page.locator(".failure").count(), 0);
    assert.doesNotMatch(await page.locator("body").innerText(), DECEIVING);
}

async function checkNumbers(page: Page, html: string) {
    const document = documentOf(html);
    assert.deepEqual(await wrongNumbers(page, document), []);
    for (const value of expectedNumbers(document)) {
        const shown = await page.locator(`[data-ns="${value}"]`).count();
        assert.notEqual(shown, 0, `${value} ns is not on the page`);
    }
}

async function checkColours(page: Page, html: string) {
    const cells = documentOf(html).picture?.raster.cells ?? [];
    const drawn = await drawnOwners(page);
    if (cells.length > 0) {
        assert.ok(drawn && drawn.length > 0, "nothing is drawn");
        const known = new Set<string>(cells.map(([, , , , owner]) => owner));
        assert.ok(
            drawn.every((owner) => known.has(owner)),
            `${drawn} are not all of the document`,
        );
    }
}

async function checkWidths(page: Page) {
    for (const width of WIDTHS) {
        await page.setViewportSize({ width, height: 900 });
        await settled(page);
        const wide = await page.evaluate(() => document.documentElement.scrollWidth);
        assert.ok(wide <= width, `${wide} px at ${width}`);
    }
}

async function checkPrint(page: Page) {
    const pdf = await page.pdf({ format: "A4" });
    assert.equal(pdf.subarray(0, 5).toString(), "%PDF-");
    await page.emulateMedia({ media: "print" });
    assert.equal(await page.locator("#verdict").isVisible(), true);
    assert.equal(await page.locator("#top").isVisible(), false);
    await page.emulateMedia({ media: "screen" });
}

async function checkWithoutScript(page: Page, file: string) {
    const { page: without } = await open(browser, file, { javaScriptEnabled: false });
    const verdict = (of: Page) => of.locator("#verdict").textContent();
    assert.equal(await verdict(without), await verdict(page));
    assert.match(await without.locator("noscript").innerText(), /JavaScript/);
    await checkUnfolded(without);
    await without.context().close();
}

/** Leaves half of the data, in whole groups of base64. */
function half(_: string, start: string, data: string): string {
    return start + data.slice(0, (data.length >> 3) << 2);
}
