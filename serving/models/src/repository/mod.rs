//! Where models lie: repositories, packages, and the folders of loads that bring files.

mod catalog;
mod load_folders;
mod origin;
mod versions;

pub use catalog::is_model_folder;
pub(crate) use catalog::{Catalog, Home, PackageFile, checked, is_name};
pub(crate) use load_folders::LoadFolders;
pub use load_folders::remove_left_folders;
pub(crate) use origin::Origin;
pub(crate) use versions::wanted;
