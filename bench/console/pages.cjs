// The time in which the console's pages are shown: pages.cjs MODULES URL ACCOUNT PASSWORD LOADS PROFILE. Prints the times in ms as JSON.
"use strict";

const { createRequire } = require("node:module");

const [modules, url, account, password, loads, profile] = process.argv.slice(2);
const puppeteer = createRequire(modules + "/")("puppeteer-core");

/** What is there when a page is shown: a line in a graph, or the caption of its tables. */
const SHOWN = {
    overview: () => (document.querySelector("figure path.line")?.getAttribute("d") || "").includes("L"),
    sessions: () => [...document.querySelectorAll("main caption")].length >= 2,
};

async function main() {
    const browser = await puppeteer.launch({
        executablePath: "/usr/bin/chromium",
        headless: true,
        userDataDir: profile,
        args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--lang=en-US"],
        protocolTimeout: 300_000,
    });
    try {
        const page = await browser.newPage();
        page.setDefaultTimeout(120_000);
        await page.goto(url);
        await page.waitForSelector("form.sign-in");
        await page.type("input[name=account]", account);
        await page.type("input[name=password]", password);
        await page.click("button[type=submit]");
        await page.waitForSelector("nav a[aria-current=page]");
        const times = {};
        for (const [name, isShown] of Object.entries(SHOWN)) {
            times[name] = [];
            for (let number = 0; number < Number(loads); number += 1) {
                await page.goto("about:blank");
                const began = performance.now();
                await page.goto(`${url}#/${name}`);
                await page.waitForFunction(isShown);
                times[name].push(performance.now() - began);
            }
        }
        console.log(JSON.stringify(times));
    } finally {
        await browser.close();
    }
}

main().catch((error) => {
    console.error(error.stack);
    process.exitCode = 1;
});
