// The page as people use it: by mouse, by keyboard, with a screen reader's rules, narrow and wide, light and dark.
// Debian's Chromium and Firefox; one that is not installed is NOT TESTED.

import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { after, before, describe, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";

import puppeteer from "puppeteer-core";

import { startService } from "./service.mjs";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const LIMIT_MS = 120_000; // only against hangs
const WIDE = { width: 1280, height: 900 };
const NARROW = { width: 390, height: 844 };
const BROWSERS = [
  { browser: "chrome", executablePath: "/usr/bin/chromium", args: ["--no-sandbox", "--disable-gpu"] },
  { browser: "firefox", executablePath: "/usr/bin/firefox-esr", args: [] },
];

/** What a browser writes for a request that was refused, or while the service is away. */
const expected = /Failed to load resource|WebSocket connection|can’t establish a connection|connection to .* was interrupted/;

test("CI has both browsers", { skip: process.env.CI !== "true" }, () => {
  for (const { executablePath } of BROWSERS) assert.ok(existsSync(executablePath), executablePath);
});

for (const options of BROWSERS) {
  const skip = existsSync(options.executablePath) ? false : `NOT TESTED: no ${options.executablePath}`;
  describe(`the page in ${options.browser}`, { skip, timeout: 10 * LIMIT_MS }, () => {
    let browser;
    let service;

    const launch = (preferences = {}) =>
      puppeteer.launch({ ...options, extraPrefsFirefox: preferences, headless: true, timeout: LIMIT_MS });

    before(async () => {
      browser = await launch();
      service = await startService();
      await service.fill();
    });

    after(async () => {
      await browser?.close();
      await service?.stop();
    });

    /** A page of its own, whose errors fail the test. */
    async function open(work, viewport = WIDE, within = browser) {
      const context = await within.createBrowserContext();
      const page = await context.newPage();
      const errors = [];
      page.on("pageerror", (error) => errors.push(`${error.message}`));
      page.on("console", (message) => {
        if (message.type() === "error" && !expected.test(message.text())) errors.push(message.text());
      });
      page.setDefaultTimeout(LIMIT_MS);
      await page.setViewport(viewport);
      await page.goto(service.url);
      try {
        await work(page);
      } finally {
        await context.close();
      }
      assert.deepEqual(errors, []);
    }

    async function signIn(page, token) {
      await page.waitForSelector("#token");
      await page.type("#token", token);
      await page.keyboard.press("Enter");
    }

    const text = (page, selector) => page.$eval(selector, (element) => element.textContent);
    const until = (page, condition, ...args) => page.waitForFunction(condition, { timeout: LIMIT_MS }, ...args);
    const hasText = (page, selector, part) =>
      until(page, (s, p) => document.querySelector(s)?.textContent.includes(p), selector, part);

    /** What axe-core finds wrong (WCAG 2.2 AA and its best practices), and what is wider than the window. */
    async function faults(page) {
      await page.evaluate(axe);
      const found = await page.evaluate(async () => {
        const { violations } = await window.axe.run(document, {});
        return violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join(" ")}`);
      });
      const wide = await page.evaluate(() => document.scrollingElement.scrollWidth - window.innerWidth);
      return wide > 0 ? [...found, `${wide} pixels wider than the window`] : found;
    }

    test("an administrator sees a conference live and mutes a track", () =>
      open(async (page) => {
        await signIn(page, service.administrator);
        await hasText(page, "#participants", "Ann <b>Example</b>");
        assert.equal(await page.$("#participants b"), null);
        await hasText(page, "#live", "Live");
        await service.ask(service.administrator, "PUT", "conferences/demo", { title: "Weekly <i>meeting</i>" });
        const mute = "[aria-label='Mute cam of ann']";
        await page.waitForSelector(mute);
        await page.click(mute);
        await page.waitForSelector("[aria-label='Unmute cam of ann']");
        await hasText(page, "#participants", "muted by an administrator");
        const { participants } = await service.conference();
        assert.equal(participants.ann.tracks.cam.muted_by, "administrator");
        await hasText(page, "#events", "cam of ann is muted by an administrator");
        await service.ask(service.administrator, "PUT", "conferences/demo/participants/ann/tracks/cam/mute", { muted: false });
        await page.waitForSelector(mute);
      }));

    test("it says why a track does not come", () =>
      open(async (page) => {
        await signIn(page, service.administrator);
        const ask = "[aria-label='Why? cam of ann, at bob']";
        await page.waitForSelector(ask);
        await page.click(ask);
        await hasText(page, ".why", "publisher not signed in, receiver not signed in");
        await hasText(page, ".why", "What helps: the publisher's program says hello");
        assert.deepEqual(await faults(page), []);
        if (process.env.PAGE_IMAGES) {
          await page.screenshot({ path: `${process.env.PAGE_IMAGES}/${options.browser}-why.png`, fullPage: true });
        }
      }));

    test("it shows rates, delays and losses", async () => {
      const shows = async (page) => {
        await signIn(page, service.administrator);
        const facts = "[aria-label='bob receives'] .facts";
        await until(page, (s) => /[1-9]\d* packets\/s/.test(document.querySelector(s)?.textContent), facts);
        await until(page, (s) => /for [\d.]+ (ns|µs|ms|s) \(p50\)/.test(document.querySelector(s)?.textContent), facts);
        await hasText(page, "#losses", "not signed in");
        await hasText(page, "#delays", "port 1");
        assert.deepEqual(await faults(page), []);
      };
      await service.withTraffic(async () => {
        while (!(await service.conference()).participants.bob?.subscriptions.length) await sleep(100);
        await service.stray();
        for (const viewport of [WIDE, NARROW]) {
          await open(async (page) => {
            await shows(page);
            if (process.env.PAGE_IMAGES) {
              const name = `${options.browser}-${viewport.width}-traffic.png`;
              await page.screenshot({ path: `${process.env.PAGE_IMAGES}/${name}`, fullPage: true });
            }
          }, viewport);
        }
      });
      await service.fill();
    });

    test("the keyboard does everything, and the focus stays where it is", () =>
      open(async (page) => {
        await signIn(page, service.administrator);
        const mute = "[aria-label='Mute cam of ann']";
        await page.waitForSelector(mute);
        for (let presses = 0; presses < 40; presses += 1) {
          if (await page.evaluate((s) => document.activeElement === document.querySelector(s), mute)) break;
          await page.keyboard.press("Tab");
        }
        await page.keyboard.press("Enter");
        await page.waitForSelector("[aria-label='Unmute cam of ann']");
        const focused = () => page.evaluate(() => document.activeElement.getAttribute("aria-label"));
        assert.equal(await focused(), "Unmute cam of ann");
        await page.keyboard.press("Enter");
        await page.waitForSelector(mute);
        await page.focus("[aria-label='Remove bob']");
        await page.keyboard.press("Enter");
        await page.waitForSelector("#confirm[open]");
        assert.deepEqual(await faults(page), []);
        await page.keyboard.press("Escape");
        await until(page, () => !document.querySelector("#confirm").open);
        assert.ok("bob" in (await service.conference()).participants);
        assert.equal(await focused(), "Remove bob");
      }));

    test("an administrator makes and ends a conference, removes a participant, and drains the service", () =>
      open(async (page) => {
        const confirm = async (button, yes) => {
          await page.click(button);
          await page.waitForSelector("#confirm[open]");
          await hasText(page, "#confirm-yes", yes);
          await page.click("#confirm-yes");
        };
        await signIn(page, service.administrator);
        await hasText(page, "#drain-text", "It takes new");
        await confirm("#drain", "Drain it");
        await hasText(page, "#drain-text", "It drains");
        assert.deepEqual(await service.ask(service.administrator, "GET", "drain"), { draining: true });
        await page.click("#make summary");
        await page.type("#make-name", "second");
        await page.type("#make-text", "The <b>second</b>");
        await page.keyboard.press("Enter");
        await hasText(page, "#alert", "drains");
        await page.click("#drain");
        await hasText(page, "#drain-text", "It takes new");
        await page.click("#make-form button");
        await hasText(page, "#conference-title", "The <b>second</b>");
        await confirm("#end", "End it");
        await until(page, () => !document.querySelector("#list").textContent.includes("second"));
        await page.evaluate(() => (location.hash = "#/demo"));
        await page.waitForSelector("[aria-label='Remove bob']");
        await confirm("[aria-label='Remove bob']", "Remove");
        await until(page, () => !document.querySelector("#participants").textContent.includes("Bob"));
        assert.ok(!("bob" in (await service.conference()).participants));
        await service.fill();
      }));

    test("nobody is shut out: axe, light and dark, wide and narrow", async () => {
      // Firefox takes its colours only at its start.
      const is_firefox = options.browser === "firefox";
      const of_scheme = is_firefox
        ? { light: browser, dark: await launch({ "layout.css.prefers-color-scheme.content-override": 0 }) }
        : { light: browser, dark: browser };
      for (const viewport of [WIDE, NARROW]) {
        for (const scheme of ["light", "dark"]) {
          await open(async (page) => {
            if (!is_firefox) await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
            const is_dark = await page.evaluate(() => matchMedia("(prefers-color-scheme: dark)").matches);
            assert.equal(is_dark, scheme === "dark");
            await page.waitForSelector("#token");
            assert.deepEqual(await faults(page), [], `signing in, ${viewport.width}, ${scheme}`);
            await signIn(page, service.administrator);
            await hasText(page, "#participants", "Bob");
            assert.deepEqual(await faults(page), [], `a conference, ${viewport.width}, ${scheme}`);
            if (process.env.PAGE_IMAGES) {
              const name = `${options.browser}-${viewport.width}-${scheme}.png`;
              await page.screenshot({ path: `${process.env.PAGE_IMAGES}/${name}`, fullPage: true });
            }
          }, viewport, of_scheme[scheme]);
        }
      }
      if (is_firefox) await of_scheme.dark.close();
    });

    test("a wrong token is refused in words, and a participant may only do what is its own", () =>
      open(async (page) => {
        await signIn(page, "no token");
        await hasText(page, "#alert", "expected three parts");
        await signIn(page, service.tokens.bob);
        await hasText(page, "#participants", "Ann");
        assert.match(await text(page, "#who"), /bob, conference demo/);
        assert.ok(await page.$eval("[aria-label='Mute cam of ann']", (button) => button.hidden));
        assert.ok(await page.$eval("#end", (button) => button.hidden));
        await page.click("#forget");
        await page.waitForSelector("#token");
        assert.equal(await page.evaluate(() => sessionStorage.length), 0);
      }));

    test("a service that is away is said, and the page goes on by itself", () =>
      open(async (page) => {
        await signIn(page, service.administrator);
        await hasText(page, "#live", "Live");
        await service.way.cut();
        await hasText(page, "#live", "trying again");
        await service.way.open();
        await hasText(page, "#live", "Live");
        await service.ask(service.tokens.bob, "DELETE", "conferences/demo/participants/bob");
        await until(page, () => !document.querySelector("#participants").textContent.includes("Bob"));
        await service.fill();
        await hasText(page, "#participants", "Bob");
      }));
  });
}
