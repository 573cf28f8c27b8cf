-- A page of Apache httpd whose header and body are written apart; PAGE stands for its bytes.
require "apache2"

function handle(r)
    r.content_type = "text/plain"
    r.headers_out["Content-Length"] = "PAGE"
    r:flush()
    r:puts(string.rep("x", PAGE))
    return apache2.OK
end
