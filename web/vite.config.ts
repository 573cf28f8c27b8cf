import { defineConfig } from "vite";
import { policy } from "./policy.ts";

// One classic script and one style sheet, which the command puts into the page as they are.
export default defineConfig({
    build: {
        outDir: "dist",
        emptyOutDir: true,
        target: "es2023",
        cssTarget: "es2023",
        modulePreload: false,
        reportCompressedSize: false,
        lib: {
            entry: "src/main.tsx",
            formats: ["iife"],
            name: "lagtracePage",
            fileName: () => "page.js",
            cssFileName: "page",
        },
    },
    plugins: [policy()],
});
