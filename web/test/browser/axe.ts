// Accessibility, as axe-core checks it.

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import type { Page } from "playwright-core";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** The rules of axe by colour scheme: the scheme changes nothing but colours. */
export const RULES = { light: {}, dark: { runOnly: ["color-contrast"] } };

/** Returns what axe finds, as text. */
export async function axe(page: Page, rules: object): Promise<string[]> {
    await page.evaluate(AXE);
    return page.evaluate(async (rules) => {
        const { violations } = await (
            Reflect.get(window, "axe") as {
                run(rules: object): Promise<{
                    violations: { id: string; nodes: { html: string; failureSummary: string }[] }[];
                }>;
            }
        ).run(rules);
        return violations.flatMap(({ id, nodes }) =>
            nodes.map((node) => `${id}: ${node.html.slice(0, 160)} ${node.failureSummary}`),
        );
    }, rules);
}

/** Leaves the first rows of each table, of which the others are copies to axe: with thousands of
 * them it takes longest. The page cannot be used afterwards. */
export function shortenTables(page: Page): Promise<void> {
    return page.evaluate(() => {
        for (const body of document.querySelectorAll("tbody")) {
            for (const row of [...body.rows].slice(20)) {
                row.remove();
            }
        }
    });
}
