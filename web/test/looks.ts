// Pictures of charts, compared with those in test/looks: `npm run test:looks -- DIRECTORY`. With
// `--write` they are written anew. Fonts differ between machines, so text is not in the pictures.

import assert from "node:assert/strict";
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { fileURLToPath } from "node:url";
import type { Browser, Page } from "playwright-core";
import { Easel } from "./browser/likeness.ts";
import { launch, open } from "./browser/open.ts";
import { settled } from "./browser/settled.ts";

const LOOKS = fileURLToPath(new URL("looks/", import.meta.url));
/** The pictures of each page: a name, and the first element that matches the selector. */
const PICTURES: Record<string, [string, string][]> = {
    "nagle-delayed-ack-8ms": [
        ["request", "#verdict .request .bar"],
        ["rungs", "#verdict .rungs svg"],
        ["shares", "#time .bar"],
        ["latency", "#latency .raster"],
        ["percentiles", "#curves .uplot"],
        ["waterfall", "#waterfall .waterfall"],
        ["ladder", "#ladder svg"],
        ["sequence", "#connection .uplot"],
    ],
    "saved-route": [["route", "#route .ranges svg"]],
    "saved-sweep": [["knee", "#verdict .beside"]],
};
const WIDTHS = [1_200, 360];
const SCHEMES = ["light", "dark"] as const;
/** Maximum share of the drawn pixels that may differ. A line of a chart is at least 3 % of them. */
const MOST_DIFFERENT = 0.01;
/** Maximum size of a picture in bytes. */
const MOST_BYTES = 20_000;

const [folder, option] = process.argv.slice(2);
if (!folder || (option !== undefined && option !== "--write")) {
    console.error("usage: npm run test:looks -- DIRECTORY [--write]");
    process.exit(2);
}
let browser: Browser;
let easel: Easel;

before(async () => {
    browser = await launch();
    easel = await Easel.open(browser);
    mkdirSync(LOOKS, { recursive: true });
});
after(() => browser.close());

test("each picture is compared", () => {
    const sizes = WIDTHS.flatMap((width) => SCHEMES.map((scheme) => `${width}-${scheme}`));
    const names = Object.values(PICTURES).flatMap((all) => all.map(([name]) => name));
    const files = names.flatMap((name) => sizes.map((size) => `${name}-${size}.png`));
    const unknown = readdirSync(LOOKS).filter((file) => !files.includes(file));
    assert.deepEqual(unknown, []);
});

describe("looks", { concurrency: 2 }, () => {
    for (const [name, pictures] of Object.entries(PICTURES)) {
        test(name, async (t) => {
            const { page } = await open(browser, join(folder, `${name}.html`), {
                reducedMotion: "reduce",
            });
            await hideText(page);
            for (const width of WIDTHS) {
                await page.setViewportSize({ width, height: 900 });
                for (const colorScheme of SCHEMES) {
                    await page.emulateMedia({ colorScheme });
                    await settled(page);
                    for (const [of, selector] of pictures) {
                        const file = `${of}-${width}-${colorScheme}.png`;
                        await t.test(file, () => check(page, selector, join(LOOKS, file)));
                    }
                }
            }
            await page.context().close();
        });
    }
});

async function check(page: Page, selector: string, file: string) {
    const element = page.locator(selector).first();
    const shown = await easel.shrunk(await element.screenshot({ animations: "disabled" }));
    if (option === "--write") {
        assert.ok(shown.length <= MOST_BYTES, `${shown.length} bytes`);
        writeFileSync(file, shown);
        return;
    }
    assert.ok(existsSync(file), "there is no picture to compare with: --write makes it");
    const likeness = await easel.compare(readFileSync(file), shown);
    assert.ok(likeness, "the size differs");
    const { drawn, different } = likeness;
    assert.ok(drawn > 0, "nothing is drawn");
    assert.ok(
        different <= drawn * MOST_DIFFERENT,
        `${different} of ${drawn} drawn pixels differ; if they are meant to, write them with --write`,
    );
}

/** Leaves text out of pictures, and the bar that would cover them. Axes of charts are drawn again
 * when the size of the page changes. */
async function hideText(page: Page) {
    await page.evaluate(() => {
        CanvasRenderingContext2D.prototype.fillText = () => {};
        const style = new CSSStyleSheet();
        style.replaceSync(
            "* { color: transparent !important } text { fill: none !important; stroke: none !important } #top { display: none !important }",
        );
        document.adoptedStyleSheets.push(style);
    });
}
