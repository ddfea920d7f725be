// Writes a .br and a .gz beside each file of the built page, for the listener to serve. Trunk runs it after a release build.
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { brotliCompressSync, constants, gzipSync } from 'node:zlib';

const root = process.env.TRUNK_STAGING_DIR;
const { BROTLI_PARAM_QUALITY, BROTLI_PARAM_LGWIN, BROTLI_PARAM_SIZE_HINT } = constants;

for (const name of readdirSync(root, { recursive: true })) {
  if (!/\.(?:wasm|js|css|html|svg|json|webmanifest)$/.test(name)) continue;
  const path = join(root, name);
  const plain = readFileSync(path);
  const brotli = brotliCompressSync(plain, {
    params: { [BROTLI_PARAM_QUALITY]: 11, [BROTLI_PARAM_LGWIN]: 24, [BROTLI_PARAM_SIZE_HINT]: plain.length },
  });
  const gzip = gzipSync(plain, { level: 9 });
  if (brotli.length < plain.length) writeFileSync(`${path}.br`, brotli);
  if (gzip.length < plain.length) writeFileSync(`${path}.gz`, gzip);
  if (plain.length > 20000) console.log(`${name}: ${plain.length} bytes, gzip ${gzip.length}, brotli ${brotli.length}`);
}
