# Two stages: the Go toolchain builds one static binary, and the image that
# ships holds that, the CA certificates, time zones and a non-root user.

FROM --platform=$BUILDPLATFORM golang:1.26-bookworm AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN --mount=type=cache,target=/go/pkg/mod go mod download
COPY . .
ARG TARGETOS
ARG TARGETARCH
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH \
    go build -trimpath -ldflags "-s -w" -o /out/weir ./cmd/weir

FROM gcr.io/distroless/static-debian12:nonroot
# busybox under this name is only wget: a health check needs something that asks.
COPY --from=busybox:1.37-musl /bin/busybox /bin/wget
COPY --from=build /out/weir /weir
EXPOSE 8080
ENTRYPOINT ["/weir"]
CMD ["serve"]
