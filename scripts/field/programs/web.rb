# A WEBrick server of a short page. Argument: port.
require "webrick"

page = "x" * 400
server = WEBrick::HTTPServer.new(
  Port: ARGV[0].to_i,
  Logger: WEBrick::Log.new(File::NULL),
  AccessLog: [],
)
server.mount_proc("/") do |_, response|
  response.body = page
end
# WEBrick writes header and body apart. Its connections inherit this from the listener.
server.listeners.each { |at| at.setsockopt(Socket::IPPROTO_TCP, Socket::TCP_NODELAY, 1) }
trap("TERM") { server.shutdown }
server.start
