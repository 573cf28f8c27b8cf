-- A page of Apache httpd whose header and body are written apart.
require "apache2"

function handle(r)
    r.content_type = "text/plain"
    r.headers_out["Content-Length"] = "612"
    r:flush()
    r:puts(string.rep("x", 612))
    return apache2.OK
end
