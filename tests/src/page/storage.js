// Everything that this origin keeps in the browser, as JSON: keys that cannot be read say what they are, bytes are hexadecimal.
(async () => {
  const plain = (value) => {
    if (value instanceof CryptoKey) {
      return { CryptoKey: { type: value.type, extractable: value.extractable, algorithm: value.algorithm.name } };
    }
    if (value instanceof ArrayBuffer) return plain(new Uint8Array(value));
    if (ArrayBuffer.isView(value)) {
      return { bytes: Array.from(new Uint8Array(value.buffer, value.byteOffset, value.byteLength),
        (byte) => byte.toString(16).padStart(2, '0')).join('') };
    }
    if (Array.isArray(value)) return value.map(plain);
    if (value && typeof value === 'object' && !(value instanceof Date)) {
      return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, plain(inner)]));
    }
    return value ?? null;
  };
  const done = (request) => new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
  const databases = {};
  for (const { name } of await indexedDB.databases()) {
    const database = await done(indexedDB.open(name));
    databases[name] = {};
    for (const store of database.objectStoreNames) {
      const objects = database.transaction(store).objectStore(store);
      const [keys, values] = await Promise.all([done(objects.getAllKeys()), done(objects.getAll())]);
      databases[name][store] = keys.map((key, index) => ({ key: plain(key), value: plain(values[index]) }));
    }
    database.close();
  }
  const cached = {};
  for (const name of await caches.keys()) {
    cached[name] = (await (await caches.open(name)).keys()).map((request) => request.url);
  }
  return { local: { ...localStorage }, session: { ...sessionStorage }, cookies: document.cookie, databases, caches: cached };
})()
