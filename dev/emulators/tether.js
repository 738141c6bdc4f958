// Loaded into an emulator before its own code (node --require). It ends the emulator when whoever
// holds the other end of its stdin is gone, killed or not, and has it listen on the loopback
// interface: both emulators would listen on all of them, and neither has a setting for that.
// And it keeps kinesalite alive when a client breaks off in the middle of a call, as one that is
// killed or has no more patience does: it throws what node tells it of that.
'use strict'
const { Server } = require('node:net')

const gone = () => process.exit(0)
process.stdin.on('end', gone).on('close', gone).on('error', gone).resume()

const listen = Server.prototype.listen
Server.prototype.listen = function (...given) {
  const options = typeof given[0] === 'object' ? given[0] : { port: Number(given[0]) }
  const done = given.filter((argument) => typeof argument === 'function')
  return listen.call(this, { ...options, host: '127.0.0.1' }, ...done)
}

process.on('uncaughtException', (error) => {
  if (error.code === 'ECONNRESET' && error.message === 'aborted') return
  console.error(error)
  process.exit(1)
})
