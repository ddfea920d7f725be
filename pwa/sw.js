// Keeps the page usable when the machine cannot be reached. It holds one page, what that page names, and nothing else.
'use strict';

// Count up when the layout of the cache changes; caches of other names are removed.
const CACHE = 'aude-1';

// The page is kept under this name whatever its address was: one page serves all addresses, and an address can hold a secret.
const PAGE = '/';

// Files whose names do not change with their content.
const FIXED = [
  '/boot.js',
  '/register.js',
  '/manifest.webmanifest',
  '/icons/icon.svg',
  '/icons/192.png',
  '/icons/512.png',
  '/icons/maskable512.png',
  '/icons/apple180.png',
];

// Files whose names hold a hash of their content, so that what is kept is never out of date.
const HASHED = /\/[\w.-]+-[0-9a-f]{16}(?:_bg)?\.(?:js|wasm|css)/g;

// The page names three such files; many more means that this is not our page.
const HASHED_MOST = 16;

// What a tunnel or proxy answers for a machine that it cannot reach.
const UNREACHABLE = [502, 503, 504];

// How long the network may take for the page while there is a kept one, in milliseconds.
const PATIENCE = 4000;

// The clients whose page was the kept one.
const withKeptPage = new Set();
const CLIENTS_MOST = 64;

self.addEventListener('install', (event) => {
  event.waitUntil((async () => {
    const page = await fetch(PAGE, { cache: 'no-cache' });
    if (isPage(page)) await keepPage(page);
    const cache = await caches.open(CACHE);
    await Promise.allSettled(FIXED.map((path) => cache.add(new Request(path, { cache: 'no-cache' }))));
    // A page that an older worker serves has loaded all it needs, so there is nothing to wait for.
    await self.skipWaiting();
  })());
});

self.addEventListener('activate', (event) => {
  event.waitUntil((async () => {
    const names = await caches.keys();
    await Promise.all(names.filter((name) => name !== CACHE).map((name) => caches.delete(name)));
    await self.clients.claim();
  })());
});

self.addEventListener('fetch', (event) => {
  const { request } = event;
  const url = new URL(request.url);
  if (request.method !== 'GET' || url.origin !== self.location.origin) return;
  if (url.pathname === '/wire' || url.pathname.startsWith('/wire/')) return;
  if (request.mode === 'navigate') {
    event.respondWith(page(event));
  } else if (isHashed(url.pathname)) {
    event.respondWith(hashed(event, url.pathname));
  } else if (FIXED.includes(url.pathname)) {
    event.respondWith(fixed(event, url.pathname));
  }
  // All else goes to the network as if there were no worker.
});

// The page: from the network, and kept for the next time also when it comes too late for this one.
async function page(event) {
  const network = fetch(event.request).catch(() => null);
  event.waitUntil(network.then((response) => response && isPage(response) && keepPage(response.clone())).catch(() => {}));
  const response = await networkOrKept(network, PAGE);
  if (response.kept) remember(event.resultingClientId);
  return response.answer;
}

// A file that the page names by a fixed name: with a kept page goes the kept file, else as the page.
async function fixed(event, path) {
  const known = withKeptPage.has(event.clientId) ? await kept(path) : undefined;
  if (known) return known;
  const network = fetch(event.request).catch(() => null);
  event.waitUntil(network.then((response) => response && isFile(response) && keepFile(path, response.clone())).catch(() => {}));
  const { answer } = await networkOrKept(network, path);
  return answer.ok && isHtml(answer) ? missing() : answer;
}

// The network's answer, unless the machine cannot be reached, or takes so long that it may as well not be, and there is a kept one.
async function networkOrKept(network, path) {
  const first = await Promise.race([network, after(PATIENCE)]);
  if (first && !UNREACHABLE.includes(first.status)) return { answer: first, kept: false };
  const known = await kept(path);
  if (known) return { answer: known, kept: true };
  return { answer: (await network) ?? Response.error(), kept: false };
}

// Kept first. What is fetched here is not kept: keepPage() does that for the page that names it, so that no version stays for ever.
async function hashed(event, path) {
  const response = (await kept(path)) ?? (await fetch(event.request));
  return response.ok && isHtml(response) ? missing() : response;
}

// Keeps a page once all that it names is kept, then drops what it does not name: the cache holds one version.
async function keepPage(response) {
  const text = await response.clone().text();
  const names = new Set(text.match(HASHED) ?? []);
  if (names.size === 0 || names.size > HASHED_MOST) return;
  const cache = await caches.open(CACHE);
  for (const name of names) {
    if (await cache.match(name)) continue;
    const file = await fetch(name);
    if (!file.ok || isHtml(file)) return;
    await cache.put(name, file);
  }
  await cache.put(PAGE, response);
  const wanted = new Set([PAGE, ...FIXED, ...names]);
  for (const request of await cache.keys()) {
    if (!wanted.has(new URL(request.url).pathname)) await cache.delete(request);
  }
}

async function keepFile(path, response) {
  const cache = await caches.open(CACHE);
  await cache.put(path, response);
}

async function kept(path) {
  const cache = await caches.open(CACHE);
  return cache.match(path);
}

// A page in place of a file is a missing file.
function missing() {
  return new Response('', { status: 404, statusText: 'Not Found' });
}

function after(milliseconds) {
  return new Promise((resolve) => setTimeout(resolve, milliseconds));
}

function isHashed(path) {
  const [match] = path.match(HASHED) ?? [];
  return match === path;
}

function remember(client) {
  // A browser has few pages open; a worker that stops forgets them all, and then the network is asked first again.
  if (withKeptPage.size >= CLIENTS_MOST) withKeptPage.clear();
  withKeptPage.add(client);
}

function isFile(response) {
  return response.ok && !response.redirected && !isHtml(response);
}

function isPage(response) {
  return response.ok && !response.redirected && isHtml(response);
}

function isHtml(response) {
  return (response.headers.get('content-type') ?? '').startsWith('text/html');
}
