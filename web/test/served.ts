// Tests of a page that `lagtrace view --serve` serves: `npm run test:served -- URL`.

import assert from "node:assert/strict";
import { test } from "node:test";
import { checkList } from "./browser/keys.ts";
import { launch, openUrl } from "./browser/open.ts";

const url = process.argv[2];
if (!url) {
    console.error("usage: npm run test:served -- URL");
    process.exit(2);
}

test("an exchange is opened down to its packets", async () => {
    const browser = await launch();
    const { page, complaints } = await openUrl(browser, url);
    await checkList(page);
    await page.getByRole("button", { name: "Show its packets" }).click();
    await page.waitForSelector("#exchange-ladder svg");
    const packets = await page.locator("#exchange-ladder svg text").count();
    assert.ok(packets > 3, `${packets} texts in the ladder`);
    await page.waitForSelector("#exchange-connection canvas");
    // Nothing was asked but the page and the packets.
    const others = complaints.filter((it) => !it.startsWith(`request: ${url}packets/`));
    assert.deepEqual(others, []);
    assert.equal(complaints.length, 1);
    await browser.close();
});
