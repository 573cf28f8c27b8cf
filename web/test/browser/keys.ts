// Use of the page by keyboard only.

import assert from "node:assert/strict";
import type { Page } from "playwright-core";

const REACHABLE = "a[href], button, select, input, summary, [tabindex='0']";

/** Returns the controls that Tab does not reach. */
export async function unreached(page: Page): Promise<string[]> {
    const total = await page.evaluate((selector) => {
        const isVisible = (element: Element) =>
            element.checkVisibility({ visibilityProperty: true }) && !element.closest("dialog");
        const controls = [...document.querySelectorAll(selector)].filter(isVisible);
        controls.forEach((element, i) => {
            element.setAttribute("data-control", String(i));
        });
        return controls.length;
    }, REACHABLE);
    const reached = new Set<string>();
    for (let i = 0; i < 2 * total + 10 && reached.size < total; i += 1) {
        await page.keyboard.press("Tab");
        const control = await page.evaluate(() =>
            document.activeElement?.getAttribute("data-control"),
        );
        if (control) {
            reached.add(control);
        }
    }
    return page.evaluate(
        (found) => {
            const controls = [...document.querySelectorAll("[data-control]")];
            const isMissing = (element: Element) =>
                !found.includes(element.getAttribute("data-control") ?? "");
            return controls.filter(isMissing).map((element) => element.outerHTML.slice(0, 120));
        },
        [...reached],
    );
}

/** `?` opens the help, Escape closes it. */
export async function checkHelp(page: Page) {
    await page.keyboard.press("?");
    assert.equal(await page.locator("dialog[open]").count(), 1);
    await page.keyboard.press("Escape");
    assert.equal(await page.locator("dialog[open]").count(), 0);
}

/** The arrow keys select in the picture of latency over time; Escape removes the selection. */
export async function checkBrush(page: Page) {
    const raster = page.locator(".raster");
    if ((await raster.count()) === 0) {
        return;
    }
    const words = page.locator(".selected p");
    const before = await words.textContent();
    await raster.focus();
    await page.keyboard.press("ArrowRight");
    await page.keyboard.press("Shift+ArrowLeft");
    await page.waitForTimeout(100);
    assert.notEqual(await words.textContent(), before);
    await page.keyboard.press("Escape");
    await page.waitForTimeout(100);
    assert.equal(await words.textContent(), before);
}

/** Down and Enter open an exchange in the list, and the focus goes to it. */
export async function checkList(page: Page) {
    const list = page.locator(".waterfall");
    if ((await list.count()) === 0) {
        return;
    }
    await list.focus();
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("End");
    await page.keyboard.press("Enter");
    await page.waitForTimeout(100);
    assert.equal(await page.locator(".detail").count(), 1);
    assert.equal(await page.evaluate(() => document.activeElement?.id), "exchange-detail");
    const active = await list.getAttribute("aria-activedescendant");
    assert.equal(await page.locator(`#${active}`).count(), 1, "the active row is in the page");
}
