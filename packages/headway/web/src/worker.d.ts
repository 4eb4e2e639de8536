declare module "worker:*" {
  /** The script of a worker, bundled. */
  const script: string;
  export default script;
}
