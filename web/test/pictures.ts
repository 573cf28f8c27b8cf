// Pictures of a page for the README: `npm run pictures -- PAGE FOLDER`.

import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import type { Page } from "playwright-core";
import { launch } from "./browser/open.ts";

/** Each picture shows the sections from the first to the last one. */
const PICTURES = [{ name: "verdict", first: "#verdict", last: "#verdict" }];
const WIDTH = 1_200;
/** Space around the sections. */
const MARGIN = 12;

async function picture(page: Page, file: string, shown: (typeof PICTURES)[number]) {
    const box = await page.evaluate(({ first, last }) => {
        const top = document.querySelector(first)?.getBoundingClientRect().top ?? 0;
        const bottom = document.querySelector(last)?.getBoundingClientRect().bottom ?? 0;
        return { y: top + scrollY, height: bottom - top };
    }, shown);
    const clip = { x: 0, y: box.y - MARGIN, width: WIDTH, height: box.height + 2 * MARGIN };
    await page.screenshot({ path: file, clip, fullPage: true });
}

const [file, folder] = process.argv.slice(2);
if (!file || !folder) {
    console.error("usage: npm run pictures -- PAGE FOLDER");
    process.exit(2);
}
mkdirSync(folder, { recursive: true });
const browser = await launch();
const page = await browser.newPage({
    colorScheme: "light",
    viewport: { width: WIDTH, height: 900 },
});
await page.goto(pathToFileURL(file).href);
await page.locator("#ladder svg").first().waitFor();
// The bar at the top would cover the beginning of a section.
await page.evaluate(() => document.querySelector("#top")?.remove());
for (const shown of PICTURES) {
    await picture(page, join(folder, `page-${shown.name}.png`), shown);
}
await browser.close();
