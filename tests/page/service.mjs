// A service with its switch for one test, and requests as participants and as its administrator.

import { spawn } from "node:child_process";
import { createSocket } from "node:dgram";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { connect, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const root = fileURLToPath(new URL("../..", import.meta.url));
const programs = process.env.REPRISE_PROGRAMS ?? `${root}/target/release`;

export async function startService() {
  const words = ["serve", "--dev", "--json", "--listen", "127.0.0.1:0", "--media", "127.0.0.1:0"];
  const child = spawn(`${programs}/reprise`, words, { stdio: ["ignore", "pipe", "inherit"] });
  const lines = createInterface({ input: child.stdout });
  const line = await Promise.race([
    once(lines, "line").then(([first]) => first),
    once(child, "exit").then(([code]) => Promise.reject(new Error(`reprise serve ended with ${code}`))),
  ]);
  const said = JSON.parse(line);
  if (said.error) throw new Error(said.error);
  const way = new Way(new URL(said.url));
  return new Service(child, way, { ...said, url: await way.open() });
}

/** The way from a browser to the service, which a test can cut. */
class Way {
  #server;
  #sockets = new Set();
  #port = 0;

  constructor({ hostname, port }) {
    this.#server = createServer((near) => {
      const far = connect(Number(port), hostname);
      for (const [socket, other] of [[near, far], [far, near]]) {
        this.#sockets.add(socket);
        socket.pipe(other);
        // The other one's end follows; what fails here is what a cut does.
        socket.on("error", () => {});
        socket.on("close", () => {
          this.#sockets.delete(socket);
          other.destroy();
        });
      }
    });
  }

  /** Lets connections through, on the same port each time; its URL. */
  async open() {
    this.#server.listen(this.#port, "127.0.0.1");
    await once(this.#server, "listening");
    this.#port = this.#server.address().port;
    return `http://127.0.0.1:${this.#port}`;
  }

  /** Ends all connections and takes no other. */
  async cut() {
    const closed = once(this.#server, "close");
    this.#server.close();
    for (const socket of this.#sockets) socket.destroy();
    await closed;
  }
}

/** How often the participants ask something: who gives no sign for a minute is removed. */
const SIGN_MS = 5_000;

class Service {
  #child;
  #signs;

  constructor(child, way, { url, administrator, tokens }) {
    this.#child = child;
    this.way = way;
    this.url = url;
    this.administrator = administrator;
    this.tokens = tokens;
    const ask = (token) => this.ask(token, "GET", "conferences/demo").catch(() => {});
    this.#signs = setInterval(() => Object.values(tokens).forEach(ask), SIGN_MS);
  }

  /** A request below /v1; the answer's body. */
  async ask(token, method, path, body) {
    const response = await fetch(`${this.url}/v1/${path}`, {
      method,
      headers: { Authorization: `Bearer ${token}`, "Content-Type": "application/json" },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
    const text = await response.text();
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`);
    return text ? JSON.parse(text) : null;
  }

  /** Ann publishes a camera, which Bob receives. */
  async fill() {
    const { ann, bob } = this.tokens;
    const of = (name) => `conferences/demo/participants/${name}`;
    await this.ask(ann, "PUT", of("ann"), { display_name: "Ann <b>Example</b>" });
    await this.ask(bob, "PUT", of("bob"), { display_name: "Bob" });
    const qualities = [{ name: "high", max_kbps: 2500 }, { name: "low", max_kbps: 300 }];
    await this.ask(ann, "PUT", `${of("ann")}/tracks/cam`, { kind: "video", qualities });
    await this.ask(bob, "PUT", `${of("bob")}/subscriptions/ann/cam`, { quality: "low" });
  }

  /** Ann and Bob as programs that send and receive, until `work` is done; and a packet of nobody. */
  async withTraffic(work) {
    const folder = await mkdtemp(join(tmpdir(), "reprise-page-"));
    const tokens = join(folder, "tokens");
    await writeFile(tokens, `${this.tokens.ann}\n${this.tokens.bob}\n`);
    const words = ["load", this.url, "--tokens", tokens, "--publishers", "1", "--seconds", "600"];
    const load = spawn(`${programs}/reprise`, words, { stdio: ["ignore", "ignore", "inherit"] });
    try {
      await work();
    } finally {
      const ended = once(load, "exit");
      load.kill("SIGINT");
      await ended;
      await rm(folder, { recursive: true });
    }
  }

  /** A packet of media from a socket that is not signed in. */
  async stray() {
    const { participants } = await this.ask(this.tokens.bob, "GET", "conferences/demo");
    const [leg] = Object.values(participants.bob.legs);
    const [{ address, port }] = leg.media.addresses;
    const socket = createSocket("udp4");
    await promisify(socket.send.bind(socket))(Buffer.from([0x80, 96, ...Array(100).fill(0)]), port, address);
    socket.close();
  }

  async conference() {
    return this.ask(this.administrator, "GET", "conferences/demo");
  }

  async stop() {
    clearInterval(this.#signs);
    const ended = once(this.#child, "exit");
    this.#child.kill("SIGTERM");
    await ended;
    await this.way.cut();
  }
}
