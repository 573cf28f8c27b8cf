// Use of the page by keyboard only.

import assert from "node:assert/strict";
import type { Page } from "playwright-core";
import { settled } from "./settled.ts";

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
        addEventListener("focusin", ({ target }) =>
            (target as Element).setAttribute("data-reached", ""),
        );
        return controls.length;
    }, REACHABLE);
    // The page keeps what had the focus, so that the keys need not wait for an answer each.
    const press = async (times: number) => {
        for (let i = 0; i < times; i += 1) {
            await page.keyboard.press("Tab");
        }
        return page.evaluate(
            () => document.querySelectorAll("[data-control][data-reached]").length,
        );
    };
    const wanted = Math.ceil(total / 2) + 10;
    for (let round = 0; round < 4 && (await press(wanted)) < total; round += 1) {}
    return page.evaluate(() =>
        [...document.querySelectorAll("[data-control]:not([data-reached])")].map((element) =>
            element.outerHTML.slice(0, 120),
        ),
    );
}

/** `?` opens the help, Escape closes it. */
export async function checkHelp(page: Page) {
    // Keys are text where one types.
    await page.evaluate(() => (document.activeElement as HTMLElement | null)?.blur());
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
    await settled(page);
    assert.notEqual(await words.textContent(), before);
    await page.keyboard.press("Escape");
    await settled(page);
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
    await settled(page);
    assert.equal(await page.locator(".detail").count(), 1);
    assert.equal(await page.evaluate(() => document.activeElement?.id), "exchange-detail");
    const active = await list.getAttribute("aria-activedescendant");
    assert.equal(await page.locator(`#${active}`).count(), 1, "the active row is in the page");
}
