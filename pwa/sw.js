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

// Network first; the kept page when the machine cannot be reached.
async function page(event) {
  try {
    const response = await fetch(event.request);
    if (!UNREACHABLE.includes(response.status)) {
      if (isPage(response)) event.waitUntil(keepPage(response.clone()).catch(() => {}));
      return response;
    }
    return (await kept(PAGE)) ?? response;
  } catch (error) {
    return (await kept(PAGE)) ?? Response.error();
  }
}

// Kept first. What is fetched here is not kept: keepPage() does that for the page that names it, so that no version stays for ever.
async function hashed(event, path) {
  const response = (await kept(path)) ?? (await fetch(event.request));
  return response.ok && isHtml(response) ? missing() : response;
}

// Network first; the kept file when the machine cannot be reached.
async function fixed(event, path) {
  try {
    const response = await fetch(event.request);
    if (UNREACHABLE.includes(response.status)) return (await kept(path)) ?? response;
    if (response.ok && isHtml(response)) return missing();
    if (response.ok && !response.redirected) {
      const copy = response.clone();
      event.waitUntil(caches.open(CACHE).then((cache) => cache.put(path, copy)).catch(() => {}));
    }
    return response;
  } catch (error) {
    return (await kept(path)) ?? Response.error();
  }
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

async function kept(path) {
  const cache = await caches.open(CACHE);
  return cache.match(path);
}

// A page in place of a file is a missing file.
function missing() {
  return new Response('', { status: 404, statusText: 'Not Found' });
}

function isHashed(path) {
  const [match] = path.match(HASHED) ?? [];
  return match === path;
}

function isPage(response) {
  return response.ok && !response.redirected && isHtml(response);
}

function isHtml(response) {
  return (response.headers.get('content-type') ?? '').startsWith('text/html');
}
