-- A page of Apache httpd with header and body in separate writes. PAGE is replaced by its size in bytes.
require "apache2"

function handle(r)
    r.content_type = "text/plain"
    r.headers_out["Content-Length"] = "PAGE"
    r:flush()
    r:puts(string.rep("x", PAGE))
    return apache2.OK
end
